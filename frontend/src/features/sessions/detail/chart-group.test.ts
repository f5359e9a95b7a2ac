import { expect, test } from "vitest";
import { openGroups, withOpen } from "./chart-group";

test("open groups are those of the address that there are, in the order of the page", () => {
  expect(openGroups(new URLSearchParams("open=speed,nothing,policy"))).toEqual(["policy", "speed"]);
  expect(openGroups(new URLSearchParams())).toEqual([]);
});

test("to open and to close groups leaves the rest of the address as it is", () => {
  const opened = withOpen(new URLSearchParams("x=time&open=policy"), ["speed"], true);
  expect(opened.toString()).toBe("x=time&open=policy%2Cspeed");
  expect(withOpen(opened, ["policy"], false).get("open")).toBe("speed");
  expect(withOpen(opened, ["policy", "speed"], false).toString()).toBe("x=time");
});
