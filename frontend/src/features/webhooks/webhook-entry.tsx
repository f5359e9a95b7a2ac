// One webhook: its address, the events that it gets, and how the latest deliveries went.
import { useQuery } from "@tanstack/react-query";
import { ChevronRight, Trash2 } from "lucide-react";
import { Collapsible } from "radix-ui";
import type { Delivery, Webhook } from "../../api/types";
import { deliveriesQuery } from "../../api/webhooks";
import { Badge, type Tone } from "../../ui/badge";
import { Confirm } from "../../ui/dialog";
import { span, ago, dateTime, number } from "../../ui/format";
import { IconButton } from "../../ui/icon-button";
import { ErrorNotice } from "../../ui/notice";
import { cell, headCell, Table } from "../../ui/table";

export const TONES: Record<Delivery["state"], Tone> = {
  pending: "busy",
  delivered: "good",
  failed: "bad",
};

/** What came of the last try, and when the next one is. */
export function outcome(delivery: Delivery, now = Date.now()): string {
  const { state, status, error, next_at: nextAt } = delivery;
  if (state === "delivered") return `returned ${String(status ?? "")}`.trim();
  if (state === "failed") return `${error}, given up`;
  if (!error || nextAt === null) return "on its way";
  const leftS = (Date.parse(nextAt) - now) / 1000;
  return leftS > 0 ? `${error}, again in ${span(Math.ceil(leftS))}` : `${error}, again now`;
}

interface WebhookEntryProps {
  webhook: Webhook;
  isOpen: boolean;
  onDelete: () => void;
}

/** `isOpen`: as it is shown at first. */
export function WebhookEntry({ webhook, isOpen, onDelete }: WebhookEntryProps) {
  return (
    <Collapsible.Root defaultOpen={isOpen}>
      <div className="flex items-center pr-2 hover:bg-sunken">
        <Collapsible.Trigger
          className="group flex min-w-0 flex-1 items-center gap-2 py-2 pl-4 text-left"
          aria-label={`Deliveries to ${webhook.url}`}
        >
          <ChevronRight className="size-3.5 shrink-0 text-muted transition-transform group-data-[state=open]:rotate-90" />
          <span className="min-w-0 flex-1">
            <span className="block truncate font-medium" title={webhook.url}>
              {webhook.url}
            </span>
            <span className="block text-xs text-muted">{webhook.topics.join(", ")}</span>
          </span>
          <span
            className="hidden shrink-0 text-xs text-muted sm:block"
            title={dateTime(webhook.created_at)}
          >
            {ago(webhook.created_at)}
          </span>
        </Collapsible.Trigger>
        <div className="ml-2 shrink-0">
          <Confirm
            trigger={<IconButton icon={Trash2} label={`Delete the webhook to ${webhook.url}`} />}
            title="Delete this webhook?"
            description={`${webhook.url} receives no more events, and deliveries that are still due are dropped.`}
            action="Delete webhook"
            onConfirm={onDelete}
          />
        </div>
      </div>
      <Collapsible.Content className="border-t border-line bg-sunken">
        <Deliveries webhook={webhook} />
      </Collapsible.Content>
    </Collapsible.Root>
  );
}

const HEAD = [
  { name: "Event" },
  { name: "State" },
  { name: "Last try" },
  { name: "Tries", right: true },
  { name: "When" },
];

function Deliveries({ webhook }: { webhook: Webhook }) {
  const { data, error, isPending } = useQuery(deliveriesQuery(webhook.id));
  return (
    <>
      <ErrorNotice error={error} />
      {isPending && <p className="px-9 py-3 text-muted">Loading…</p>}
      {data?.items.length === 0 && (
        <p className="px-9 py-3 text-muted">
          Nothing was sent yet. What is sent stays listed here for thirty days.
        </p>
      )}
      {data && data.items.length > 0 && (
        <div className="max-h-96 overflow-y-auto pl-5">
          <Table label="Deliveries" head={HEAD}>
            {data.items.map((delivery) => (
              <DeliveryRow key={delivery.id} delivery={delivery} />
            ))}
          </Table>
        </div>
      )}
    </>
  );
}

function DeliveryRow({ delivery }: { delivery: Delivery }) {
  return (
    <tr>
      <th scope="row" className={`${headCell} font-mono text-xs`}>
        {delivery.topic}
      </th>
      <td className={cell}>
        <Badge tone={TONES[delivery.state]}>{delivery.state}</Badge>
      </td>
      <td className={`${cell} whitespace-nowrap`}>{outcome(delivery)}</td>
      <td className={`${cell} text-right`}>{number(delivery.attempts)}</td>
      <td className={`${cell} whitespace-nowrap`} title={dateTime(delivery.created_at)}>
        {ago(delivery.created_at)}
      </td>
    </tr>
  );
}
