import { expect, test } from "vitest";
import type { ModelCalls, TinkerModel, TinkerRun } from "../../../api/types";
import {
  lossCharts,
  measureName,
  modelName,
  stepCharts,
  weightsOf,
  withFinerCalls,
} from "./tinker-columns";

const column = (...last: (number | null)[]) => ({ last, low: last, high: last });
const calls = (
  columns: ModelCalls["columns"],
  tokens: number[],
  all = tokens.length,
): ModelCalls => ({
  columns,
  tokens,
  numbers: tokens.map((_, at) => at + 1),
  steps: tokens.map(() => 0),
  calls_in_all: all,
  calls_within: all,
});

test("the loss is drawn by token and as it was returned, with extremes where a point is several calls", () => {
  const charts = lossCharts(
    calls({ "kl:mean": column(0.1, 0.2), "loss:sum": column(8, 6) }, [4, 0]),
  );
  expect(charts.map(({ title, unit, series }) => [title, unit, series[0]?.values])).toEqual([
    ["Loss by token", "of the call’s data", [2, null]],
    ["Loss", "sum, as the call returned it", [8, 6]],
    ["Kl", "mean", [0.1, 0.2]],
  ]);
  expect(charts[1]?.series[0]?.low).toBeUndefined();
  expect(lossCharts(calls({ "loss:sum": column(8, 6) }, [4, 4], 20))[1]?.series[0]).toMatchObject({
    low: [8, 6],
    high: [8, 6],
  });
  expect(lossCharts(calls({}, []))).toEqual([]);
});

test("the learning rate comes first of what a step returned", () => {
  expect(
    stepCharts(calls({ grad_norm: column(1), learning_rate: column(1e-4) }, [0])).map(
      ({ title }) => title,
    ),
  ).toEqual(["Learning rate", "Grad norm"]);
  expect(stepCharts(calls({}, []))).toEqual([]);
  expect(measureName("own_metric:max")).toBe("Own metric");
});

test("a model is told by what of it is trained", () => {
  const lora = {
    rank: 8,
    seed: null,
    train_unembed: false,
    train_mlp: true,
    train_attn: true,
    alpha: 32,
  };
  expect(weightsOf({ lora } as unknown as TinkerModel)).toBe("LoRA of rank 8, without unembedding");
  expect(weightsOf({ lora: { ...lora, rank: 0 } } as unknown as TinkerModel)).toBe("all weights");
});

test("models of one number are told apart by their clients, by a name that one client alone has or an id", () => {
  const client = (tinker_session_id: string, display_name: string) =>
    ({ tinker_session_id, display_name }) as TinkerRun["clients"][number];
  const run = {
    models: [
      { id: "tnk_a:train:0" },
      { id: "tnk_b:train:0" },
      { id: "tnk_b:train:1" },
      { id: "odd" },
    ],
    clients: [client("tnk_a", "distil\u202e"), client("tnk_b", "")],
  };
  const names = (clients: TinkerRun["clients"]) =>
    run.models.map(({ id }) => modelName(id, { ...run, clients }));
  expect(names(run.clients)).toEqual([
    "train:0 of distil⟨U+202E⟩",
    "train:0 of tnk_b",
    "train:1",
    "odd",
  ]);
  expect(names([client("tnk_a", "x"), client("tnk_b", "x")])).toEqual([
    "train:0 of tnk_a",
    "train:0 of tnk_b",
    "train:1",
    "odd",
  ]);
});

test("calls of a part are in finer points among those of the whole", () => {
  const whole: ModelCalls = {
    numbers: [10, 20, 30, 40],
    steps: [1, 2, 3, 4],
    tokens: [4, 4, 4, 4],
    columns: { "loss:sum": column(1, 2, 3, 4), kl: column(5, 6, 7, 8) },
    calls_in_all: 40,
    calls_within: 40,
  };
  const part: ModelCalls = {
    numbers: [18, 19, 20, 21],
    steps: [2, 2, 2, 2],
    tokens: [1, 1, 1, 1],
    columns: { "loss:sum": column(0.1, 0.2, 0.3, 0.4) },
    calls_in_all: 40,
    calls_within: 4,
  };
  const joined = withFinerCalls(whole, part);
  expect(joined.numbers).toEqual([10, 18, 19, 20, 21, 30, 40]);
  expect(joined.columns["loss:sum"]?.last).toEqual([1, 0.1, 0.2, 0.3, 0.4, 3, 4]);
  expect(joined.columns.kl?.high).toEqual([5, null, null, null, null, 7, 8]);
  expect(withFinerCalls(whole, undefined)).toBe(whole);
  expect(withFinerCalls(whole, { ...part, numbers: [], calls_within: 0 })).toBe(whole);
});
