// A part of the page that is loaded on its own: asked for again while the network loses it, and anew by whoever needs it after that.
const PAUSES_MS = [1_000, 4_000, 15_000];

/** `load`, once for all who ask, until it failed once more than there are pauses. */
export function retried<T>(
  load: () => Promise<T>,
  pausesMs: readonly number[] = PAUSES_MS,
): () => Promise<T> {
  let going: Promise<T> | undefined;
  const attempt = async ([pause, ...later]: readonly number[]): Promise<T> => {
    try {
      return await load();
    } catch (error) {
      if (pause === undefined) throw error;
      await new Promise((done) => setTimeout(done, pause));
      return attempt(later);
    }
  };
  return () => {
    going ??= attempt(pausesMs).catch((error: unknown) => {
      going = undefined;
      throw error;
    });
    return going;
  };
}
