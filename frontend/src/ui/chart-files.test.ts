import { expect, test } from "vitest";
import { csvOf, fileName } from "./chart-files";

test("a file of values has what was measured, with the extremes of each point, and no formula", () => {
  const reward = {
    label: "reward",
    colour: "",
    values: [0.1, 0.2],
    raw: [0, 0.3],
    low: [0, 0.1],
    high: [1, null],
  };
  const own = { label: '=HYPERLINK("x")', colour: "", values: [null, 2] };
  expect(csvOf("step", [5, 10], [reward, own]).split("\r\n")).toEqual([
    `step,reward,"reward, low","reward, high","'=HYPERLINK(""x"")"`,
    "5,0,0,1,",
    "10,0.3,0.1,,2",
    "",
  ]);
});

test("a file is named as its chart", () => {
  expect(fileName("KL engine to trainer", "png")).toBe("kl-engine-to-trainer.png");
  expect(fileName("長さ /..", "csv")).toBe("長さ.csv");
  expect(fileName("../", "csv")).toBe("chart.csv");
});
