// The project's API keys: make, look at, revoke.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { accountQuery } from "../../api/account";
import { keysQuery, revokeKey } from "../../api/keys";
import { currentProject } from "../../api/project";
import type { Key } from "../../api/types";
import { Badge } from "../../ui/badge";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { ago, dateTime, hasPassed, span } from "../../ui/format";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { Empty, PageHeader } from "../../ui/panel";
import { visible, UserText } from "../../ui/plain-text";
import { cell, headCell, Table } from "../../ui/table";
import { CreateKey } from "./create-key";
import { scopesText } from "./scopes";

export function KeysPage() {
  const { data, error, isPending } = useQuery(keysQuery);
  const { data: account } = useQuery(accountQuery);
  const project = account && currentProject(account);
  return (
    <>
      <PageHeader title="API keys">
        {project && <CreateKey readOnly={project.role === "viewer"} />}
      </PageHeader>
      <ErrorNotice error={error} />
      <div className="rounded-lg border border-line bg-surface">
        {isPending && <Loading />}
        {data?.items.length === 0 && (
          <Empty title="No key yet">
            A key is what your program signs in with. Create one, set it in your shell, and paste
            the loop that comes with it.
          </Empty>
        )}
        {data && data.items.length > 0 && (
          <KeyTable
            keys={data.items}
            mayRevoke={(key) => project?.role === "owner" || key.created_by === account?.email}
          />
        )}
      </div>
    </>
  );
}

/** `mayRevoke`: an owner every key of the project, others their own. */
function KeyTable({ keys, mayRevoke }: { keys: Key[]; mayRevoke: (key: Key) => boolean }) {
  const client = useQueryClient();
  const revoke = useMutation({
    meta: { done: "The key is revoked" },
    mutationFn: revokeKey,
    onSettled: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });
  return (
    <>
      <ErrorNotice error={revoke.error} />
      <Table
        label="API keys"
        head={["Name", "Key", "May", "Spent", "Created", "Last used", "State"]
          .map((name) => ({ name }))
          .concat({ name: "" })}
      >
        {keys.map((key) => (
          <tr key={key.id} className={key.revoked_at ? "text-muted" : ""}>
            <th scope="row" className={`${headCell} text-ink`}>
              {key.name ? (
                <UserText text={key.name} />
              ) : (
                <span className="text-muted">unnamed</span>
              )}
            </th>
            <td className={`${cell} font-mono text-xs sm:whitespace-nowrap`}>{key.prefix}…</td>
            <td className={`${cell} text-xs text-muted`}>
              {scopesText(key.scopes)}
              {key.allowed_models && (
                <span className="block">only {key.allowed_models.join(", ")}</span>
              )}
            </td>
            <td
              className={`${cell} whitespace-nowrap`}
              title="Device time of the sessions that it started"
            >
              {span(key.spent_s)}
              {key.spend_cap_s !== null && ` of ${span(key.spend_cap_s)}`}
            </td>
            <td className={`${cell} whitespace-nowrap`} title={dateTime(key.created_at)}>
              {ago(key.created_at)}
              <UserText
                className="block max-w-48 truncate text-xs text-muted"
                text={`by ${key.created_by}`}
              />
            </td>
            <td className={`${cell} whitespace-nowrap`}>
              {key.last_used_at ? ago(key.last_used_at) : "never"}
            </td>
            <td className={cell}>
              <KeyState value={key} />
            </td>
            <td className={`${cell} text-right`}>
              {!key.revoked_at && mayRevoke(key) && (
                <Confirm
                  trigger={
                    <Button
                      look="quiet"
                      className="h-7"
                      aria-label={`Revoke ${visible(key.name || key.prefix)}`}
                    >
                      Revoke
                    </Button>
                  }
                  title={`Revoke ${visible(key.name || key.prefix)}?`}
                  description="Programs that use this key are refused from now on. This cannot be undone."
                  action="Revoke key"
                  onConfirm={() => {
                    revoke.mutate(key.id);
                  }}
                />
              )}
            </td>
          </tr>
        ))}
      </Table>
    </>
  );
}

function KeyState({ value }: { value: Key }) {
  if (value.revoked_at) return <Badge tone="neutral">revoked</Badge>;
  if (hasPassed(value.expires_at)) return <Badge tone="warn">expired</Badge>;
  return (
    <>
      <Badge tone="good">active</Badge>
      {value.expires_at && (
        <span className="mt-0.5 block text-xs text-muted">until {dateTime(value.expires_at)}</span>
      )}
    </>
  );
}
