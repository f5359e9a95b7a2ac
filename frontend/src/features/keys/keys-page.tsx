// The project's API keys: make, look at, revoke.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { keysQuery, revokeKey } from "../../api/keys";
import type { Key } from "../../api/types";
import { Badge } from "../../ui/badge";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { ago, dateTime, hasPassed } from "../../ui/format";
import { ErrorNotice } from "../../ui/notice";
import { Empty, PageHeader } from "../../ui/panel";
import { cell, headCell, Table } from "../../ui/table";
import { CreateKey } from "./create-key";

export function KeysPage() {
  const { data, error, isPending } = useQuery(keysQuery);
  return (
    <>
      <PageHeader title="API keys">
        <CreateKey />
      </PageHeader>
      <ErrorNotice error={error} />
      <div className="rounded-lg border border-line bg-surface">
        {isPending && <p className="p-4 text-muted">Loading…</p>}
        {data?.items.length === 0 && (
          <Empty title="No key yet">
            A key is what your program signs in with. Create one, set it in your shell, and paste the loop that comes with it.
          </Empty>
        )}
        {data && data.items.length > 0 && <KeyTable keys={data.items} />}
      </div>
    </>
  );
}

function KeyTable({ keys }: { keys: Key[] }) {
  const client = useQueryClient();
  const revoke = useMutation({
    mutationFn: revokeKey,
    onSettled: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });
  return (
    <>
      <ErrorNotice error={revoke.error} />
      <Table head={["Name", "Key", "Scopes", "Created", "Last used", "State"].map((name) => ({ name })).concat({ name: "" })}>
        {keys.map((key) => (
          <tr key={key.id} className={key.revoked_at ? "text-muted" : ""}>
            <th scope="row" className={`${headCell} text-ink`}>
              {key.name || <span className="text-muted">unnamed</span>}
            </th>
            <td className={`${cell} font-mono text-xs`}>{key.prefix}…</td>
            <td className={`${cell} text-xs text-muted`}>{key.scopes.join(", ")}</td>
            <td className={`${cell} whitespace-nowrap`} title={dateTime(key.created_at)}>
              {ago(key.created_at)}
            </td>
            <td className={`${cell} whitespace-nowrap`}>{key.last_used_at ? ago(key.last_used_at) : "never"}</td>
            <td className={cell}>
              <KeyState value={key} />
            </td>
            <td className={`${cell} text-right`}>
              {!key.revoked_at && (
                <Confirm
                  trigger={
                    <Button look="quiet" className="h-7" aria-label={`Revoke ${key.name || key.prefix}`}>
                      Revoke
                    </Button>
                  }
                  title={`Revoke ${key.name || key.prefix}?`}
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
  return <Badge tone="good">active</Badge>;
}
