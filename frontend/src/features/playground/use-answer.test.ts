import { expect, test } from "vitest";
import { withDeltas } from "./use-answer";

test("what came since the last time is added in order, and a reason to end stays", () => {
  const token = (text: string) => ({ text, logprob: -1, count: 1 });
  const before = { tokens: [token("a")], finish: null, error: null, running: true, seconds: null };
  const deltas = [{ tokens: [token("b")], finish: null }, { tokens: [], finish: "stop" }, { tokens: [], finish: null }];
  expect(withDeltas(before, deltas)).toMatchObject({ tokens: [token("a"), token("b")], finish: "stop" });
});
