import { expect, test, vi } from "vitest";
import { inTurn } from "./in-turn";

test("pieces of work run in order, each in a task of its own, and one that fails stops no other", async () => {
  const reported = vi.fn();
  vi.stubGlobal("reportError", reported);
  const done: string[] = [];
  const broken = new Error("broken");
  await new Promise<void>((finished) => {
    inTurn(() => {
      done.push("first");
      void Promise.resolve().then(() => done.push("between")); // what the first left to do comes before the second
    });
    inTurn(() => { throw broken; });
    inTurn(() => done.push("second"));
    inTurn(finished);
    done.push("asked");
  });
  expect(done).toEqual(["asked", "first", "between", "second"]);
  expect(reported).toHaveBeenCalledExactlyOnceWith(broken);
});
