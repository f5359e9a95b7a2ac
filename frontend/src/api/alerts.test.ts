import { expect, test } from "vitest";
import { sessionAlertsPath } from "./alerts";

test("a run's page asks for every alert that is not over, however many newer ones are", () => {
  expect(sessionAlertsPath("ses_1")).toBe("/v1/sessions/ses_1/alerts?standing=true&limit=100");
});
