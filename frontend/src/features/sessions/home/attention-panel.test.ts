import { expect, test } from "vitest";
import type { Alert, Session } from "../../../api/types";
import { troublesOf } from "./attention-panel";

const NOW = Date.parse("2030-01-10T00:00:00Z");
const failed = (id: string, updated_at: string) =>
  ({
    id,
    name: id,
    updated_at,
    failure: {
      code: "runtime_lost",
      cause: "SafetensorError: file not fully covered\nTraceback",
      hint: "Start it again.",
    },
  }) as unknown as Session;
const alert = (id: number, session_id: string, step: number | null = null) =>
  ({
    id,
    session_id,
    session_name: "",
    rule: "reward_collapse",
    text: "0.1 after 0.9",
    at: "2030-01-08T00:00:00Z",
    step,
  }) as unknown as Alert;

test("what needs a person is listed newest first: standing alerts, and failures of the last week once each", () => {
  const listed = troublesOf(
    [alert(1, "ses_1", 3), alert(2, "ses_2")],
    [failed("ses_2", "2030-01-09T00:00:00Z"), failed("ses_3", "2030-01-01T00:00:00Z")],
    NOW,
  );
  expect(listed.map(({ to, what, text }) => [to, what, text])).toEqual([
    ["/sessions/ses_2", "Failed", "SafetensorError: file not fully covered. Start it again."],
    ["/sessions/ses_1/steps/3", "Reward collapsed", "0.1 after 0.9"],
  ]);
});
