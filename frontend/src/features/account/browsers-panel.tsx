// The browsers that are signed in, and the way to sign them all out.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { browsersQuery, endBrowsers } from "../../api/security";
import { Badge } from "../../ui/badge";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { browserName } from "../../ui/browser-name";
import { ago } from "../../ui/format";
import { ErrorNotice } from "../../ui/notice";
import { Panel } from "../../ui/panel";

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
