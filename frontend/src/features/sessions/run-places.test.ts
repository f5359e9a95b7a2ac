import { expect, test } from "vitest";
import { placesOf } from "./run-places";

test("each kind of run has its own places", () => {
  const names = (kind: "episodes" | "tinker" | "serving") =>
    placesOf({ id: "ses_1", kind }).map(({ name }) => name);
  expect(names("episodes")).toEqual([
    "Overview",
    "Charts",
    "Episodes",
    "Steps",
    "Tasks",
    "Evals",
    "Checkpoints",
    "Health",
    "Settings",
  ]);
  expect(names("tinker")).toEqual(["Overview", "Checkpoints", "Health", "Settings"]);
  expect(names("serving")).toEqual(["Overview", "Health", "Settings"]);
  expect(placesOf({ id: "ses_1", kind: "serving" }).map(({ to }) => to)).toEqual([
    "/sessions/ses_1",
    "/sessions/ses_1/health",
    "/sessions/ses_1/settings",
  ]);
});
