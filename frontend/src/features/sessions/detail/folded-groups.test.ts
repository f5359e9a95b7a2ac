import { expect, test } from "vitest";
import { foldedGroups, withFolded } from "./folded-groups";

test("folded groups are those of the address that there are, in the order of the page", () => {
  expect(foldedGroups(new URLSearchParams("folded=speed,nothing,policy"))).toEqual(["policy", "speed"]);
  expect(foldedGroups(new URLSearchParams())).toEqual([]);
});

test("to fold and to show a group leaves the rest of the address as it is", () => {
  const folded = withFolded(new URLSearchParams("x=time&folded=policy"), "speed", true);
  expect(folded.toString()).toBe("x=time&folded=policy%2Cspeed");
  expect(withFolded(folded, "policy", false).get("folded")).toBe("speed");
  expect(withFolded(new URLSearchParams("folded=policy"), "policy", false).toString()).toBe("");
});
