import { expect, test } from "vitest";
import { measureName, ruleText } from "./measures";

test("a rule is told in words, and one on a measure that is not known here by its name", () => {
  expect(ruleText({ metric: "reward_mean", above: false, value: 0.25, steps: 5 })).toBe(
    "Reward, mean below 0.25 in 5 steps in a row",
  );
  expect(ruleText({ metric: "entropy", above: true, value: 2, steps: 1 })).toBe(
    "Entropy above 2 in one step",
  );
  expect(measureName("later")).toBe("later");
  expect(measureName("metrics/reward/format")).toBe("reward/format");
});
