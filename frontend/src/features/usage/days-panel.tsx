// What was used in a period, day by day, by member, model or key. The address keeps what is chosen.
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { saveBlob } from "../../api/client";
import type { UsageBy, UsageDays } from "../../api/types";
import { usageDaysQuery } from "../../api/usage";
import { useAddress } from "../../ui/address-part";
import { Button } from "../../ui/button";
import { DateRange } from "../../ui/date-range";
import { Options } from "../../ui/choices";
import { inputClass } from "../../ui/field";
import { money, number, span } from "../../ui/format";
import { Loading } from "../../ui/loading";
import { Meter } from "../../ui/meter";
import { ErrorNotice } from "../../ui/notice";
import { Panel } from "../../ui/panel";
import { visible, UserText } from "../../ui/plain-text";
import { cell, headCell, Table } from "../../ui/table";
import { barsOf, colourOf, LENGTHS, periodOf, usageCsv } from "./day-bars";
import { DayChart } from "./day-chart";

const WAYS: { value: UsageBy; name: string }[] = [
  { value: "member", name: "person" },
  { value: "model", name: "model" },
  { value: "key", name: "key" },
];

export function DaysPanel() {
  const [address, setAddress] = useAddress();
  const [now] = useState(() => Date.now());
  const by = WAYS.find(({ value }) => value === address.get("by"))?.value ?? "member";
  const { first, last } = periodOf(address, now);
  const { data, error, isPlaceholderData } = useQuery(usageDaysQuery(first, last, by));
  return (
    <Panel
      title="By day"
      actions={
        <Button
          look="quiet"
          className="h-7"
          disabled={!data}
          onClick={() => {
            if (data) save(data);
          }}
        >
          Save as CSV
        </Button>
      }
    >
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b border-line px-4 py-2 text-xs print:hidden">
        <label className="flex items-center gap-2">
          By
          <select
            className={`${inputClass} h-7! w-24! text-xs`}
            value={by}
            onChange={(event) => {
              setAddress({ by: event.target.value });
            }}
          >
            <Options of={WAYS} />
          </select>
        </label>
        <label className="flex items-center gap-2">
          Period
          <select
            className={`${inputClass} h-7! w-32! text-xs`}
            value={address.get("from") || address.get("to") ? "" : (address.get("days") ?? "30")}
            onChange={(event) => {
              setAddress({ days: event.target.value, from: "", to: "" });
            }}
          >
            {LENGTHS.map((days) => (
              <option key={days} value={days}>
                last {days} days
              </option>
            ))}
            <option value="" disabled>
              as chosen
            </option>
          </select>
        </label>
        <DateRange />
      </div>
      <ErrorNotice error={error} />
      {!data && !error && <Loading />}
      {data && (
        <div className={isPlaceholderData ? "opacity-60" : ""}>
          <Days days={data} />
        </div>
      )}
    </Panel>
  );
}

function save(days: UsageDays) {
  saveBlob(
    new Blob([usageCsv(days)], { type: "text/csv" }),
    `usage-by-${days.by}-${days.first}-${days.last}.csv`,
  );
}

export function Days({ days }: { days: UsageDays }) {
  const bars = useMemo(() => barsOf(days), [days]);
  const total = days.payers.reduce((sum, { device_s: seconds }) => sum + seconds, 0);
  const capped = days.payers.some(({ cap_s: cap }) => cap !== null);
  const way = WAYS.find(({ value }) => value === days.by)?.name ?? days.by;
  const head = [
    { name: way.charAt(0).toUpperCase() + way.slice(1) },
    { name: "Device time", right: true },
    { name: "Share", right: true },
    ...(days.prices ? [{ name: "Cost", right: true }] : []),
    ...(capped ? [{ name: "Budget, of all time" }] : []),
  ];
  const right = `${cell} text-right whitespace-nowrap`;
  return (
    <>
      <DayChart bars={bars} />
      {days.payers.length === 0 && (
        <p className="p-4 text-muted">Nothing was used in this period.</p>
      )}
      {days.payers.length > 0 && (
        <Table label={`Usage by ${way}`} head={head}>
          {days.payers.map((payer, place) => (
            <tr key={payer.id ?? ""} className="hover:bg-sunken">
              <th scope="row" className={`${headCell} max-w-80`}>
                <span className="flex min-w-0 items-center gap-2" title={visible(payer.name)}>
                  <span
                    aria-hidden
                    className="size-2.5 shrink-0 rounded-sm"
                    style={{ background: `var(--series-${String(colourOf(place))})` }}
                  />
                  <UserText className="truncate" text={payer.name} />
                </span>
              </th>
              <td className={right} title={`${number(payer.device_s)} seconds`}>
                {span(payer.device_s)}
              </td>
              <td className={right}>
                {total > 0 ? `${String(Math.round((100 * payer.device_s) / total))} %` : "–"}
              </td>
              {days.prices && <td className={right}>{money(payer.cost, days.prices.currency)}</td>}
              {capped && (
                <td className={`${cell} min-w-40`}>
                  {payer.cap_s !== null && payer.ever_s !== null && (
                    <>
                      <span className="whitespace-nowrap">
                        {span(payer.ever_s)} of {span(payer.cap_s)}
                      </span>
                      <Meter
                        label={`Budget of ${visible(payer.name)}`}
                        share={payer.cap_s === 0 ? 1 : payer.ever_s / payer.cap_s}
                      />
                    </>
                  )}
                </td>
              )}
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}
