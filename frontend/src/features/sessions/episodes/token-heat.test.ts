import { expect, test } from "vitest";
import type { TokenRun } from "../../../api/types";
import {
  changeAt,
  heatOf,
  lossPartAt,
  lossShareAt,
  measureOf,
  ratioAt,
  scaleOf,
} from "./token-heat";

function run(fields: Partial<TokenRun>): TokenRun {
  const empty = {
    call: "call_1",
    answer: 0,
    start: 0,
    tokens: 3,
    text: "",
    token_ids: [1, 2, 3],
    pieces: ["a", "b", "c"],
  };
  return {
    ...empty,
    logprobs: [0, -0.6, -12],
    policy_versions: [4, 4, 6],
    split_bytes: {},
    advantage: null,
    raw_logprobs: null,
    trainer_logprobs: null,
    trainer_logprobs_after: null,
    is_sampled_raw: false,
    ...fields,
  };
}

test("a surprising token is stronger than a certain one", () => {
  const scale = scaleOf([run({})]);
  expect([0, 1, 2].map((at) => heatOf(run({}), at, "logprob", scale))).toEqual([
    undefined,
    "s1",
    "s5",
  ]);
});

test("an advantage is measured by the largest, and has a side", () => {
  const runs = [run({ advantage: 2 }), run({ advantage: -1 }), run({ advantage: null })];
  const scale = scaleOf(runs);
  expect(runs.map((each) => heatOf(each, 0, "advantage", scale))).toEqual(["g5", "b2", undefined]);
  expect(
    heatOf(run({ advantage: 0 }), 0, "advantage", scaleOf([run({ advantage: 0 })])),
  ).toBeUndefined();
});

test("each version has a colour, context has none", () => {
  const scale = scaleOf([run({})]);
  expect([0, 1, 2].map((at) => heatOf(run({}), at, "version", scale))).toEqual(["v0", "v0", "v1"]);
  expect(heatOf(run({ call: null }), 0, "version", scale)).toBeUndefined();
});

test("an address names the measure; one that there is not means log-probability", () => {
  expect(measureOf(new URLSearchParams("colour=version"))).toBe("version");
  expect(measureOf(new URLSearchParams("colour=taste"))).toBe("logprob");
});

test("a ratio near 1 has no colour, one far from it has a side, and one that is not kept is not 1", () => {
  const moved = run({ trainer_logprobs: [0.00001, null, -11.3] });
  expect([0, 1, 2].map((at) => heatOf(moved, at, "ratio", scaleOf([moved])))).toEqual([
    undefined,
    undefined,
    "g5",
  ]);
  expect(heatOf(run({ trainer_logprobs: [-0.17, -0.6, -12] }), 0, "ratio", scaleOf([moved]))).toBe(
    "b2",
  );
  expect([ratioAt(moved, 1), ratioAt(run({}), 0)]).toEqual([null, null]);
  expect(ratioAt(moved, 0)).toBeCloseTo(1);
  expect([scaleOf([moved]).ratios, scaleOf([run({})]).ratios]).toEqual([true, false]);
});

test("what a step changed is coloured beside the largest change, and what is not kept is no change", () => {
  const moved = run({
    trainer_logprobs: [-1, null, -11.3],
    trainer_logprobs_after: [-0.9, null, -11.8],
  });
  const scale = scaleOf([moved]);
  expect(scale.change).toBeCloseTo(0.5);
  expect([0, 1, 2].map((at) => heatOf(moved, at, "change", scale))).toEqual([
    "g1",
    undefined,
    "b5",
  ]);
  expect([changeAt(moved, 1), changeAt(run({ trainer_logprobs: [-1, -1, -1] }), 0)]).toEqual([
    null,
    null,
  ]);
  expect(scaleOf([run({ trainer_logprobs: [-1, -1, -1] })]).change).toBeNull();
  const still = run({ trainer_logprobs: [-1, -1, -1], trainer_logprobs_after: [-1, -1, -1] });
  expect([scaleOf([still]).change, heatOf(still, 0, "change", scaleOf([still]))]).toEqual([
    0,
    undefined,
  ]);
});

test("a part of the loss is advantage times ratio, none of what was not trained, and its share that of the whole episode", () => {
  const halves = run({
    advantage: -2,
    logprobs: [-1, -1, -1],
    trainer_logprobs: [-1, -1 + Math.log(2), null],
  });
  const parts = [0, 1, 2].map((at) => lossPartAt(halves, at));
  expect([parts[0], Math.round(parts[1] ?? 0), parts[2]]).toEqual([-2, -4, null]);
  expect(lossPartAt(run({ advantage: 3 }), 0)).toBeNull(); // its ratio is not kept
  expect(lossPartAt(run({}), 0)).toBeNull();
  const scale = scaleOf([halves], true);
  expect(lossShareAt(halves, 1, scale)).toBeCloseTo(2 / 3);
  expect([0, 1, 2].map((at) => heatOf(halves, at, "loss", scale))).toEqual(["b2", "b5", undefined]);
  expect(lossShareAt(halves, 1, scaleOf([halves]))).toBeNull();
});
