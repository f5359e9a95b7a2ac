import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { followSession, type Channel, type Link } from "./follow";

class FakeChannel implements Channel {
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: ((close: { code: number }) => void) | null = null;
  closed = false;
  constructor(readonly path: string) {}
  close(): void {
    this.closed = true;
  }
  hear(next_cursor: number): void {
    this.onmessage?.({ data: JSON.stringify({ items: [], next_cursor }) });
  }
}

function follow() {
  const channels: FakeChannel[] = [];
  const links: Link[] = [];
  const stop = followSession({
    sessionId: "ses_1",
    after: 7,
    open: (path) => {
      const channel = new FakeChannel(path);
      channels.push(channel);
      return channel;
    },
    onPage: () => undefined,
    onLink: (link) => links.push(link),
  });
  const newest = () => channels[channels.length - 1] as FakeChannel;
  return { channels, links, stop, newest };
}

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test("a lost connection resumes from the last cursor", () => {
  const { channels, newest } = follow();
  newest().onopen?.();
  newest().hear(41);
  newest().onclose?.({ code: 1006 });
  vi.advanceTimersByTime(500);
  expect(channels.map((channel) => channel.path)).toEqual([
    "/ws/v1/sessions/ses_1?after=7&kinds=state,metric,event,evaluation",
    "/ws/v1/sessions/ses_1?after=41&kinds=state,metric,event,evaluation",
  ]);
});

test("a server that stays away is asked ever less often, and never given up", () => {
  const { channels, links, newest } = follow();
  for (let i = 0; i < 8; i += 1) {
    newest().onclose?.({ code: 1006 });
    vi.advanceTimersByTime(10_000);
  }
  const delays = links.flatMap((link) => (link.status === "waiting" ? [link.delayMs] : []));
  expect(delays).toEqual([500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000]);
  expect(channels).toHaveLength(9);
});

test("a server that opens connections and drops them is asked ever less often too", () => {
  const { links, newest } = follow();
  for (let i = 0; i < 3; i += 1) {
    newest().onopen?.();
    newest().onclose?.({ code: 1006 });
    vi.advanceTimersByTime(10_000);
  }
  const delays = links.flatMap((link) => (link.status === "waiting" ? [link.delayMs] : []));
  expect(delays).toEqual([500, 1000, 2000]);
});

test("hearing something makes the next retry quick again", () => {
  const { links, newest } = follow();
  for (let i = 0; i < 4; i += 1) {
    newest().onclose?.({ code: 1006 });
    vi.advanceTimersByTime(10_000);
  }
  newest().onopen?.();
  newest().hear(1);
  newest().onclose?.({ code: 1006 });
  expect(links.at(-1)).toEqual({ status: "waiting", attempt: 1, delayMs: 500 });
});

test("a connection that nothing comes over is given up, and the next one resumes", () => {
  const { channels, links, newest, stop } = follow();
  newest().onopen?.();
  newest().hear(41);
  vi.advanceTimersByTime(39_000);
  newest().hear(41); // the server has nothing new, and says so
  vi.advanceTimersByTime(39_000);
  expect(links.at(-1)).toMatchObject({ status: "live" });
  vi.advanceTimersByTime(1_000);
  expect(links.at(-1)).toMatchObject({ status: "waiting" });
  expect(channels[0]?.closed).toBe(true);
  vi.advanceTimersByTime(500);
  expect(newest().path).toContain("after=41");
  stop();
  vi.advanceTimersByTime(60_000);
  expect(channels).toHaveLength(2);
});

test("a page that takes longer than the silence that is waited for arrives in the end", () => {
  const { channels, newest } = follow();
  vi.advanceTimersByTime(40_500);
  expect(channels).toHaveLength(2);
  vi.advanceTimersByTime(79_000);
  newest().hear(41);
  expect(channels).toHaveLength(2);
  vi.advanceTimersByTime(42_000);
  expect(channels).toHaveLength(3); // it was heard: the next silence is a short one again
});

test.each([
  [4400, "Reload it"],
  [4401, "signed out"],
  [4403, "may not watch"],
  [4404, "no such session"],
])("a refusal (%i) is final and gives the reason", (code, reason) => {
  const { channels, links, newest } = follow();
  newest().onclose?.({ code });
  vi.advanceTimersByTime(60_000);
  expect(channels).toHaveLength(1);
  expect(links.at(-1)).toMatchObject({
    status: "refused",
    reason: expect.stringContaining(reason) as string,
  });
});

test("stopping closes the channel and cancels a retry", () => {
  const { channels, stop, newest } = follow();
  newest().onclose?.({ code: 1006 });
  stop();
  vi.advanceTimersByTime(60_000);
  expect(channels).toHaveLength(1);
  expect(newest().closed).toBe(true);
});
