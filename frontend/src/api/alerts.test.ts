import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { asked } from "../../scripts/asked";
import { sessionAlertsQuery } from "./alerts";

test("a run's page asks for every alert that is not over, however many newer ones are", async () => {
  const urls = await asked(() => new QueryClient().fetchQuery(sessionAlertsQuery("ses_1")));
  expect(urls).toEqual(["/v1/sessions/ses_1/alerts?standing=true&limit=100"]);
});
