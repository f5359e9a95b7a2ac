import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { sessionsQuery } from "../../../api/sessions";
import type { Session, SessionChange } from "../../../api/types";
import { applyChanges, isMisplaced, keepTold, type Pages } from "./session-changes";

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

const KEY = ["sessions", "shown"];
const answer = (version: number) => ({
  pages: [{ items: [{ id: "a", name: "a", policy_version: version } as Session] }],
});
const moved = (version: number) => ({ id: "a", policy_version: version }) as SessionChange;

/** A client whose list comes when it is answered. */
function asking() {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const shown = () => client.getQueryData<Pages>(KEY)?.pages[0]?.items[0]?.policy_version;
  const ask = () => {
    let resolve: (list: Pages) => void = () => undefined;
    let reject: (problem: Error) => void = () => undefined;
    const promise = new Promise<Pages>((...ends) => {
      [resolve, reject] = ends;
    });
    const done = client
      .fetchQuery({ queryKey: KEY, queryFn: () => promise, staleTime: 0 })
      .catch(() => undefined);
    return {
      answered: (version: number) => (resolve(answer(version)), done),
      failed: () => (reject(new Error("away")), done),
    };
  };
  return { client, shown, ask, kept: keepTold(client, () => KEY) };
}

test("an answer that is older than what was told meanwhile takes no place of it", async () => {
  const { shown, ask, kept } = asking();
  await ask().answered(1);
  const second = ask();
  kept.told([moved(5)]);
  await second.answered(4);
  expect(shown()).toBe(5);
  await ask().answered(6); // and it is put over that one alone
  expect(shown()).toBe(6);
});

test("what was told before a list was asked for, or before one that failed, is not put over its answer", async () => {
  const { shown, ask, kept } = asking();
  kept.told([moved(2)]);
  await ask().answered(3);
  expect(shown()).toBe(3);
  const lost = ask();
  kept.told([moved(4)]);
  await lost.failed();
  await ask().answered(7);
  expect(shown()).toBe(7);
});

test("nothing is done any more once it is stopped", async () => {
  const { shown, ask, kept } = asking();
  kept.stop();
  const first = ask();
  kept.told([moved(5)]);
  await first.answered(4);
  expect(shown()).toBe(4);
});

test("a list in an order that the channel does not tell of is asked for as often as without it", () => {
  const often = (sort: "active" | "device_time" | "newest", isLive: boolean) => {
    const { refetchInterval } = sessionsQuery({ states: [], name: "", sort }, isLive);
    return (refetchInterval as unknown as (query: { state: { data: undefined } }) => number)({
      state: { data: undefined },
    });
  };
  expect([often("newest", false), often("newest", true)]).toEqual([5_000, 60_000]);
  expect([often("active", true), often("device_time", true)]).toEqual([5_000, 5_000]);
});
