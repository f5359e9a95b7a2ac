import { expect, test } from "vitest";
import { devicesText, nextText } from "./capacity-text";

const device = (used_by: "nobody" | "session") => ({
  device: "0",
  used_by,
  session_id: null,
  session_name: null,
});
const row = (position: number, is_held = false) => ({
  session_id: "ses_1",
  name: "",
  since: "2030-01-01T00:00:00Z",
  position,
  is_held,
});

test("free devices are counted", () => {
  expect(devicesText([device("nobody"), device("session"), device("nobody")])).toBe("2 free");
  expect(devicesText([device("session")])).toBe("all in use");
});

test("the project is told when its next session has its turn", () => {
  expect([
    nextText([]),
    nextText([row(1)]),
    nextText([row(7, true), row(9)]),
    nextText([row(7, true)]),
  ]).toEqual([
    "nothing waits",
    "the next one to start",
    "the next one is at position 9 of the queue",
    "held by the quota of devices",
  ]);
});
