import { expect, test } from "vitest";
import type { Session, SessionChange } from "../../../api/types";
import { applyChanges, isMisplaced } from "./session-changes";

const row = (id: string, more: Partial<Session> = {}) =>
  ({ id, name: id, state: "ready", reward_mean: 0.5, policy_version: 1, ...more }) as Session;
const change = (id: string, more: Partial<SessionChange> = {}) =>
  ({ id, state: "ready", reward_mean: 0.5, policy_version: 1, ...more }) as SessionChange;
const list = { pages: [{ items: [row("a"), row("b")] }, { items: [row("c")] }] };
const told = (...items: SessionChange[]) => ({ items, next_cursor: 1, is_cut: false });

test("a change is in its row, and what is not told stays", () => {
  const { pages } = applyChanges(list, [change("c", { policy_version: 7 })]);
  expect(pages[1]?.items).toEqual([row("c", { policy_version: 7 })]);
  expect(applyChanges(list, [change("z")])).toBe(list);
});

test("the list is asked for again where rows may come, go or change places, and only there", () => {
  const every = { states: [], name: "", sort: "pinned" } as const;
  expect(isMisplaced(list, told(change("a", { state: "stopped", reward_mean: 9 })), every)).toBe(
    false,
  );
  expect(isMisplaced(list, told(change("new")), every)).toBe(true);
  expect(isMisplaced(list, { ...told(), is_cut: true }, every)).toBe(true);
  expect(
    isMisplaced(list, told(change("a", { state: "stopped" })), { ...every, states: ["ready"] }),
  ).toBe(true);
  expect(
    isMisplaced(list, told(change("a", { reward_mean: 9 })), { ...every, sort: "reward" }),
  ).toBe(true);
  expect(
    isMisplaced(list, told(change("a", { reward_mean: 9 })), { ...every, sort: "steps" }),
  ).toBe(false);
  expect(
    isMisplaced(list, told(change("a", { policy_version: 2 })), {
      ...every,
      sort: "measure",
      sortBy: "loss",
    }),
  ).toBe(true);
  expect(
    isMisplaced(list, told(change("a", { policy_version: 2 })), { ...every, measure: "loss<=1" }),
  ).toBe(true);
});
