// Two days that a list is narrowed to, both included; they stand in the address as `from` and `to`.
import { useAddress } from "./address-part";
import { inputClass } from "./field";

const DAY = /^\d{4}-\d\d-\d\d$/;

/** The days of an address as times for the API, in this browser's zone; empty where there is none, or nonsense. */
export function rangeOf(address: URLSearchParams): { since: string; until: string } {
  return { since: midnight(address.get("from"), 0), until: midnight(address.get("to"), 1) };
}

function midnight(day: string | null, plusDays: number): string {
  if (!day || !DAY.test(day)) return "";
  const at = new Date(`${day}T00:00:00`);
  at.setDate(at.getDate() + plusDays);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

export function DateRange() {
  const [address, setAddress] = useAddress();
  return ["from", "to"].map((name) => (
    <label key={name} className="flex items-center gap-2">
      <span className="text-muted">{name}</span>
      <input
        type="date"
        className={`${inputClass} max-w-40`}
        value={address.get(name) ?? ""}
        onChange={(event) => {
          setAddress({ [name]: event.target.value });
        }}
      />
    </label>
  ));
}
