// The browsers that are signed in, with the way to sign them all out; and what happened to how the person comes in, so that they see what was not them.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { signInsQuery } from "../../api/account";
import { browsersQuery, endBrowsers } from "../../api/security";
import type { SignIn } from "../../api/types";
import { Badge } from "../../ui/badge";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { ago, dateTime } from "../../ui/format";
import { ErrorNotice } from "../../ui/notice";
import { Panel } from "../../ui/panel";

const BROWSERS: readonly [RegExp, string][] = [
  [/\bEdg(?:e|A|iOS)?\//, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\bFirefox\//, "Firefox"],
  [/\b(?:Headless)?Chrom(?:e|ium)\//, "Chrome"],
  [/\bVersion\/.*\bSafari\//, "Safari"],
];
const SYSTEMS: readonly [RegExp, string][] = [
  [/\b(?:iPhone|iPad)\b/, "iOS"],
  [/\bAndroid\b/, "Android"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b/, "macOS"],
  [/\bLinux\b/, "Linux"],
];

/** "Firefox on Linux"; the first word of an agent that is no browser ("python-httpx/0.27"), or "unknown browser". */
export function browserName(agent: string): string {
  const find = (table: readonly [RegExp, string][]) =>
    table.find(([pattern]) => pattern.test(agent))?.[1];
  const browser = find(BROWSERS);
  const system = find(SYSTEMS);
  if (!browser) return agent.split(" ")[0] || "unknown browser";
  return system ? `${browser} on ${system}` : browser;
}

export function BrowsersPanel() {
  const client = useQueryClient();
  const navigate = useNavigate();
  const { data: browsers = [], error } = useQuery(browsersQuery);
  const endOne = useMutation({
    meta: { done: "That browser is signed out" },
    mutationFn: (id: number) => endBrowsers([id]),
    onSettled: () => client.invalidateQueries({ queryKey: browsersQuery.queryKey }),
  });
  const endAll = useMutation({
    mutationFn: () => endBrowsers(browsers.map((browser) => browser.id)),
    onSuccess: async () => {
      await navigate("/signin");
      client.clear();
    },
  });
  const everywhere = (
    <Confirm
      trigger={<Button className="h-7">Sign out everywhere</Button>}
      title="Sign out everywhere?"
      description="Every browser is signed out, this one too. API keys go on: revoke those on their own page."
      action="Sign out everywhere"
      onConfirm={() => {
        endAll.mutate();
      }}
    />
  );
  return (
    <Panel title="Signed-in browsers" actions={everywhere}>
      <ErrorNotice error={error ?? endOne.error ?? endAll.error} />
      <ul className="divide-y divide-line">
        {browsers.map((browser) => (
          <li key={browser.id} className="flex flex-wrap items-center gap-x-3 px-4 py-2">
            <span className="min-w-0 flex-1 basis-32 wrap-anywhere" title={browser.user_agent}>
              {browserName(browser.user_agent)}
            </span>
            <span className="text-xs whitespace-nowrap text-muted">
              {browser.ip}, {ago(new Date(browser.created_at * 1000).toISOString())}
            </span>
            {browser.is_current ? (
              <Badge tone="good">this one</Badge>
            ) : (
              <Button
                look="quiet"
                className="h-7"
                onClick={() => {
                  endOne.mutate(browser.id);
                }}
              >
                Sign out
              </Button>
            )}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** What happened to how the person comes in, so that they see what was not them. */
export function SignInsPanel() {
  const { data, error } = useQuery(signInsQuery);
  return (
    <Panel title="Recent sign-ins and changes">
      <ErrorNotice error={error} />
      <ul className="divide-y divide-line">
        {data?.items.map((entry, index) => (
          <li
            key={`${entry.at}-${String(index)}`}
            className="flex flex-wrap items-baseline gap-x-3 px-4 py-2"
          >
            <span className={`shrink-0 ${isRefused(entry) ? "text-bad" : ""}`}>
              {entry.action.replaceAll("_", " ")}
            </span>
            <span
              className="min-w-0 flex-1 basis-32 text-xs wrap-anywhere text-muted"
              title={entry.agent}
            >
              {browserName(entry.agent)}
            </span>
            <span className="text-xs whitespace-nowrap text-muted" title={dateTime(entry.at)}>
              {entry.address}, {ago(entry.at)}
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function isRefused({ action }: SignIn): boolean {
  return action.endsWith("_refuse");
}
