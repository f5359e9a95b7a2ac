import { expect, test } from "vitest";
import type { Member } from "../../api/types";
import { membersMatching } from "./member-filter";

const members = ["Ann@example.org", "bob@lab.example.org"].map((email) => ({ email, role: email.startsWith("Ann") ? "owner" : "viewer" }) as Member);

test("members are found by a part of their address, in any case, or by their role", () => {
  expect(membersMatching(members, " ann ")).toEqual([members[0]]);
  expect(membersMatching(members, "lab.")).toEqual([members[1]]);
  expect(membersMatching(members, "viewer")).toEqual([members[1]]);
});

test("without a word everyone is shown, and an unknown word finds no one", () => {
  expect(membersMatching(members, "  ")).toEqual(members);
  expect(membersMatching(members, "carol")).toEqual([]);
});
