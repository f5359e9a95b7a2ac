// What happened to how the person comes in, so that they see what was not them.
import { useQuery } from "@tanstack/react-query";
import { signInsQuery } from "../../api/account";
import type { SignIn } from "../../api/types";
import { browserName } from "../../ui/browser-name";
import { ago, dateTime } from "../../ui/format";
import { ErrorNotice } from "../../ui/notice";
import { Panel } from "../../ui/panel";

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
