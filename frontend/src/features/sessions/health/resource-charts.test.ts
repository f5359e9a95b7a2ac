import { expect, test } from "vitest";
import type { ResourceColumns } from "../../../api/types";
import { resourceCharts } from "./resource-charts";

const LATEST = {
  cpu_cores: 1,
  cores: 2,
  memory_bytes: 0,
  memory_used_bytes: 0,
  memory_total_bytes: 2 ** 34,
  disk_free_bytes: 0,
  disk_total_bytes: 2 ** 40,
  gpus: [],
};

function told(
  gpus: NonNullable<ResourceColumns["latest"]>["gpus"],
  columns: Record<string, (number | null)[]>,
): ResourceColumns {
  const drawn = Object.fromEntries(
    Object.entries(columns).map(([name, mean]) => [name, { mean, low: null, high: null }]),
  );
  return { x: [0, 10], samples_in_all: 2, latest: { ...LATEST, gpus }, columns: drawn };
}

test("a machine without a GPU has no chart of one, and bytes are drawn as GiB", () => {
  const charts = resourceCharts(told([], { cpu_cores: [1, 2], memory_bytes: [2 ** 30, 2 ** 31] }));
  expect(charts.map((chart) => [chart.title, chart.unit])).toEqual([
    ["CPU", "cores of 2"],
    ["Memory", "GiB of 16"],
  ]);
  expect(charts[1]?.series.map((one) => one.values)).toEqual([[1, 2]]);
});

test("each GPU has its line, and none for what it does not report", () => {
  const gpu = {
    name: "NVIDIA H100",
    busy: 0.5,
    memory_bytes: 1,
    memory_total_bytes: 80 * 2 ** 30,
    power_w: null,
  };
  const charts = resourceCharts(
    told([gpu, gpu], { gpu0_busy: [0.5, null], gpu1_busy: [0.25, 1], gpu0_power_w: [null, null] }),
  );
  expect(
    charts.map((chart) => [
      chart.title,
      chart.series.map((one) => one.label),
      chart.series[0]?.values,
    ]),
  ).toEqual([["GPU busy", ["GPU 0", "GPU 1"], [50, null]]]);
});

test("a run without a sample has no chart", () => {
  expect(resourceCharts({ x: [], columns: {}, latest: null, samples_in_all: 0 })).toEqual([]);
});
