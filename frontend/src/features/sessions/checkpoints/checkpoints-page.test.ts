import { expect, test } from "vitest";
import type { Checkpoint } from "../../../api/types";
import { SHOWN_AT_FIRST, shownCheckpoints } from "./checkpoints-page";

function checkpoints(count: number, pinned: number[] = []): Checkpoint[] {
  return Array.from(
    { length: count },
    (_, index) => ({ id: String(index), pinned: pinned.includes(index) }) as Checkpoint,
  );
}

test("the newest come first, and the pinned wherever they are", () => {
  const shown = shownCheckpoints(checkpoints(500, [3, 499]), false);
  expect(shown).toHaveLength(SHOWN_AT_FIRST + 1);
  expect(shown.map((one) => one.id).at(-1)).toBe("499");
});

test("all of them when asked for, or when there are few", () => {
  expect(shownCheckpoints(checkpoints(500), true)).toHaveLength(500);
  expect(shownCheckpoints(checkpoints(SHOWN_AT_FIRST), false)).toHaveLength(SHOWN_AT_FIRST);
});
