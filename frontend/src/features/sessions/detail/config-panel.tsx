// What the session runs with: the options that were changed, and on request all of them.
import { useState } from "react";
import schema from "../../../api/session-config.json";
import type { Session } from "../../../api/types";
import { CopyBlock } from "../../../ui/copy";
import { Panel } from "../../../ui/panel";
import { configFields, type OptionSchema } from "../config-fields";
import { ShowAllButton } from "../show-all-button";
import { optionRows } from "./option-rows";
import { sdkLine } from "./sdk-line";

const FIELDS = configFields(schema as unknown as OptionSchema);

export function ConfigPanel({ session }: { session: Session }) {
  const [all, setAll] = useState(false);
  const rows = optionRows(FIELDS, session.config);
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
      {changed.length === 0 && <p className="px-4 py-2 text-muted">Every option has its default.</p>}
      <dl className="divide-y divide-line tabular-nums">
        {(all ? rows : changed).map((row) => (
          <div key={row.name} className="flex justify-between gap-3 px-4 py-1.5" title={row.description}>
            <dt className="min-w-0 font-mono text-xs break-words">{row.name}</dt>
            <dd className="text-right">
              <span className={row.isChanged ? "font-medium" : "text-muted"}>{row.value}</span>
              {row.isChanged && row.default && <span className="block text-xs text-muted">default {row.default}</span>}
            </dd>
          </div>
        ))}
      </dl>
      {session.kind === "episodes" && (
        <div className="border-t border-line p-3">
          <CopyBlock label="The same in Python" text={sdkLine(session, changed.map((row) => row.name))} />
        </div>
      )}
    </Panel>
  );
}
