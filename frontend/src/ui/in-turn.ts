// Work that may wait, piece by piece: between two pieces the browser does what people asked it for.

let before: Promise<void> = Promise.resolve();

/** Runs each piece in a task of its own, in the order in which they were handed in. One that throws stops no other. */
export function inTurn(work: () => void): void {
  const turn = before.then(
    () =>
      new Promise<void>((done, failed) => {
        setTimeout(() => {
          try {
            work();
            done();
          } catch (error) {
            failed(error instanceof Error ? error : new Error(String(error)));
          }
        });
      }),
  );
  before = turn.catch((error: unknown) => {
    reportError(error);
  });
}
