// The parts of the page's address: one set or taken out, and one that is typed.
import { useCallback, useEffect, useState } from "react";
import { useNavigate, useSearchParams } from "react-router";

const PAUSE_MS = 300; // so that a word is asked for once, not at each letter

/** By their names; an empty text is no part. */
type Parts = Readonly<Record<string, string>>;

/** The address with these parts set, or taken out when empty. */
export function withParts(address: URLSearchParams, parts: Parts): URLSearchParams {
  const next = new URLSearchParams(address);
  for (const [name, value] of Object.entries(parts)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  return next;
}

/** The history keeps no entry of the address of before, unless `replace` is false. */
type SetAddress = (
  change: Parts | ((now: URLSearchParams) => URLSearchParams),
  options?: { replace: boolean },
) => void;

/**
 * The parts of the address, and what changes them. The router's own setter knows those of the last paint: of two changes
 * before the next one, such as a word that is typed and a choice beside it, it would lose the first.
 */
export function useAddress(): [URLSearchParams, SetAddress] {
  const [address] = useSearchParams();
  const navigate = useNavigate();
  const setAddress: SetAddress = useCallback(
    (change, options = { replace: true }) => {
      const now = new URLSearchParams(window.location.search);
      const next = typeof change === "function" ? change(now) : withParts(now, change);
      void navigate(`?${next.toString()}`, options);
    },
    [navigate],
  );
  return [address, setAddress];
}

/** The text of an input for the part `name`, and its setter: the address follows after a pause. */
export function useTypedPart(name: string): [string, (typed: string) => void] {
  const [address, setAddress] = useAddress();
  const asked = address.get(name) ?? "";
  const [typed, setTyped] = useState(asked);
  const [seen, setSeen] = useState(asked);
  const [sent, setSent] = useState<readonly string[]>([]);
  // "Back", and a link that clears the filter, change the address under the input. What comes back of its own text may be
  // older than what was typed since.
  if (asked !== seen) {
    setSeen(asked);
    const own = sent.indexOf(asked);
    setSent(sent.slice(own < 0 ? sent.length : own + 1));
    if (own < 0) setTyped(asked);
  }
  useEffect(() => {
    if (typed.trim() === asked) return;
    const timer = setTimeout(() => {
      setSent((before) => [...before, typed.trim()]);
      setAddress({ [name]: typed.trim() });
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
    };
  }, [typed, asked, name, setAddress]);
  return [typed, setTyped];
}
