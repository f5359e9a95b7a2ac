import { expect, test } from "vitest";
import type { ModelCalls, TinkerModel } from "../../../api/types";
import { lossCharts, measureName, shortName, stepCharts, weightsOf } from "./tinker-columns";

const column = (...last: (number | null)[]) => ({ last, low: last, high: last });
const calls = (columns: ModelCalls["columns"], tokens: number[], all = tokens.length): ModelCalls => ({ columns, tokens, numbers: tokens.map((_, at) => at + 1), steps: tokens.map(() => 0), calls_in_all: all });

test("the loss is drawn by token and as it was returned, with extremes where a point is several calls", () => {
  const charts = lossCharts(calls({ "kl:mean": column(0.1, 0.2), "loss:sum": column(8, 6) }, [4, 0]));
  expect(charts.map(({ title, unit, series }) => [title, unit, series[0]?.values])).toEqual([
    ["Loss by token", "of the call’s data", [2, null]],
    ["Loss", "sum, as the call returned it", [8, 6]],
    ["Kl", "mean", [0.1, 0.2]],
  ]);
  expect(charts[1]?.series[0]?.low).toBeUndefined();
  expect(lossCharts(calls({ "loss:sum": column(8, 6) }, [4, 4], 20))[1]?.series[0]).toMatchObject({ low: [8, 6], high: [8, 6] });
  expect(lossCharts(calls({}, []))).toEqual([]);
});

test("the learning rate comes first of what a step returned", () => {
  expect(stepCharts(calls({ grad_norm: column(1), learning_rate: column(1e-4) }, [0])).map(({ title }) => title)).toEqual(["Learning rate", "Grad norm"]);
  expect(stepCharts(calls({}, []))).toEqual([]);
  expect(measureName("own_metric:max")).toBe("Own metric");
});

test("a model is named by its part of the session, and by what of it is trained", () => {
  const lora = { rank: 8, seed: null, train_unembed: false, train_mlp: true, train_attn: true, alpha: 32 };
  expect(weightsOf({ lora } as unknown as TinkerModel)).toBe("LoRA of rank 8, without unembedding");
  expect(weightsOf({ lora: { ...lora, rank: 0 } } as unknown as TinkerModel)).toBe("all weights");
  expect([shortName("tnk_ab:train:0"), shortName("odd")]).toEqual(["train:0", "odd"]);
});
