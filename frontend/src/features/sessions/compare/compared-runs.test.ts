import { expect, test } from "vitest";
import { runsOf, withRuns } from "./compared-runs";

test("an address compares up to eight runs, each once, and nothing that is no run", () => {
  expect(runsOf(new URLSearchParams("runs=ses_a,ses_b,ses_a,,../x,ses_<b>"))).toEqual([
    "ses_a",
    "ses_b",
  ]);
  expect(
    runsOf(
      new URLSearchParams(
        `runs=${Array.from({ length: 12 }, (_, at) => `ses_${String(at)}`).join(",")}`,
      ),
    ),
  ).toHaveLength(8);
  expect(runsOf(new URLSearchParams())).toEqual([]);
});

test("other parts of the address stay when the runs change", () => {
  const address = new URLSearchParams("x=time&runs=ses_a&smooth=0.5");
  expect(withRuns(address, ["ses_a", "ses_b"])).toBe("?runs=ses_a,ses_b&x=time&smooth=0.5");
  expect(runsOf(new URLSearchParams(withRuns(address, ["ses_a", "ses_b"])))).toEqual([
    "ses_a",
    "ses_b",
  ]);
});
