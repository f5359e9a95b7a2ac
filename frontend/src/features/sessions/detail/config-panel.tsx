// What the session runs with: the options that were changed, and on request all of them.
import { useState } from "react";
import schema from "../../../api/session-config.json";
import type { Session } from "../../../api/types";
import { useAddress } from "../../../ui/address-part";
import { CopyBlock } from "../../../ui/copy";
import { Panel } from "../../../ui/panel";
import { configFields, type OptionSchema } from "../config-fields";
import { ShowAllButton } from "../show-all-button";
import { optionRows } from "./option-rows";
import { sdkProgram } from "./sdk-program";

const FIELDS = configFields(schema as unknown as OptionSchema);

function show(row: HTMLElement | null): void {
  row?.scrollIntoView({ block: "center" });
}

export function ConfigPanel({ session }: { session: Session }) {
  const [address] = useAddress();
  const asked = address.get("option"); // where a search led to
  const [all, setAll] = useState(asked !== null);
  const rows = optionRows(FIELDS, session.config, session.kind, session.decided);
  const changed = rows.filter((row) => row.isChanged);
  return (
    <Panel
      title="Options"
      actions={
        <ShowAllButton
          all={all}
          fewer="Show changed"
          count={rows.length}
          onToggle={() => {
            setAll(!all);
          }}
        />
      }
    >
      {session.kind === "tinker" && (
        <p className="border-b border-line px-4 py-2 text-xs text-muted">
          Its clients choose the rank, the loss and the learning rate of each model: the Overview
          shows them.
        </p>
      )}
      {changed.length === 0 && (
        <p className="px-4 py-2 text-muted">Every option has its default.</p>
      )}
      <dl className="divide-y divide-line tabular-nums">
        {(all ? rows : changed).map((row) => (
          <div
            key={row.name}
            ref={row.name === asked ? show : undefined}
            aria-current={row.name === asked ? "true" : undefined}
            className="grid grid-cols-[minmax(0,1fr)_auto] gap-x-3 px-4 py-1.5 aria-[current=true]:bg-accent-soft"
          >
            <dt className="min-w-0 font-mono text-xs break-words">{row.name}</dt>
            <dd className="text-right">
              <span className={row.isChanged ? "font-medium" : "text-muted"}>{row.value}</span>
              {row.isChanged && row.default && (
                <span className="block text-xs text-muted">default {row.default}</span>
              )}
            </dd>
            {row.description && (
              <dd className="col-span-2 text-xs text-muted">{row.description}</dd>
            )}
          </div>
        ))}
      </dl>
      {session.kind === "episodes" && (
        <div className="border-t border-line p-3">
          <CopyBlock
            label="The same in Python"
            text={sdkProgram(
              session,
              changed.map((row) => row.name),
            )}
          />
        </div>
      )}
    </Panel>
  );
}
