// The tags of a run; each leads to the runs that have it.
import { Link } from "react-router";
import { UserText } from "../../ui/plain-text";

export function TagLinks({ tags }: { tags: readonly string[] }) {
  return tags.map((tag) => (
    <Link
      key={tag}
      to={`/sessions?tag=${encodeURIComponent(tag)}`}
      className="inline-block max-w-40 truncate rounded bg-sunken px-1.5 text-xs text-muted hover:text-ink hover:underline"
    >
      <UserText text={tag} />
    </Link>
  ));
}
