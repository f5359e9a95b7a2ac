// Narrows the list of sessions by state, name, tag, base model, day and pin, and sorts it.
import { useQuery } from "@tanstack/react-query";
import { baseModelsQuery } from "../../../api/server";
import { useAddress } from "../../../ui/address-part";
import { DateRange } from "../../../ui/date-range";
import { Options } from "../../../ui/choices";
import { inputClass } from "../../../ui/field";
import { MoreFilters } from "../../../ui/more-filters";
import { visible } from "../../../ui/plain-text";
import { SearchInput } from "../../../ui/search-input";
import { columnsIn, withColumn } from "../episodes/own-columns";
import { measureTitle } from "./measure-columns";
import { filterOf, SORT_CHOICES, STATE_CHOICES } from "./session-filter";

/** `measured`: what a column can be made of. */
export function SessionsFilterBar({ measured }: { measured: readonly string[] }) {
  const [address, setAddress] = useAddress();
  const { data } = useQuery(baseModelsQuery);
  const { model = "", sortBy } = filterOf(address);
  const known = data?.items.map(({ name }) => name) ?? [];
  const models = model && !known.includes(model) ? [...known, model] : known; // one that is offered no longer has its runs
  return (
    <search className="mb-3 flex flex-wrap items-center gap-2">
      <SearchInput part="name" label="Name or id contains" maxLength={120} className="max-w-64" />
      <select
        aria-label="State"
        className={`${inputClass} max-w-44`}
        value={address.get("state") ?? ""}
        onChange={(event) => {
          setAddress({ state: event.target.value });
        }}
      >
        <Options of={STATE_CHOICES} />
      </select>
      <select
        aria-label="Sorted by"
        className={`${inputClass} max-w-36`}
        value={filterOf(address).sort}
        onChange={(event) => {
          const sort = event.target.value;
          setAddress({ reverse: "", by: "", sort: sort === "pinned" ? "" : sort });
        }}
      >
        <Options of={SORT_CHOICES} />
        {sortBy && <option value="measure">{visible(measureTitle(sortBy))}</option>}
      </select>
      {(measured.length > 0 || columnsIn(address).length > 0) && (
        <select
          aria-label="Columns"
          className={`${inputClass} max-w-40`}
          value=""
          onChange={(event) => {
            const chosen = event.target.value;
            setAddress((before) => withColumn(before, chosen));
          }}
        >
          <option value="">Columns…</option>
          {[...new Set([...columnsIn(address), ...measured])].map((name) => (
            <option key={name} value={name}>
              {columnsIn(address).includes(name) ? "✓ " : ""}
              {visible(measureTitle(name))}
            </option>
          ))}
        </select>
      )}
      <MoreFilters parts={["tag", "option", "measure", "model", "from", "to", "pinned"]}>
        <SearchInput part="tag" label="Tag" maxLength={40} className="max-w-36" />
        <SearchInput
          part="option"
          label="Option, e.g. grpo_n=8"
          maxLength={300}
          className="max-w-48"
        />
        <SearchInput
          part="measure"
          label="Measure, e.g. loss<=0.5"
          maxLength={300}
          className="max-w-64"
          proposals={measured.flatMap((name) => [`${name}>=`, `${name}<=`])}
        />
        <select
          aria-label="Base model"
          className={`${inputClass} max-w-56`}
          value={model}
          onChange={(event) => {
            setAddress({ model: event.target.value });
          }}
        >
          <option value="">Every model</option>
          {models.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <DateRange />
        <label className="flex items-center gap-2">
          <input
            type="checkbox"
            checked={address.get("pinned") === "true"}
            onChange={(event) => {
              setAddress({ pinned: event.target.checked ? "true" : "" });
            }}
          />
          Pinned only
        </label>
      </MoreFilters>
    </search>
  );
}
