// The end of a list that is read page by page.
import { Button } from "./button";

interface Query {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
}

export function ShowOlder({ query }: { query: Query }) {
  if (!query.hasNextPage) return null;
  return (
    <div className="mt-3 text-center">
      <Button onClick={() => void query.fetchNextPage()} disabled={query.isFetchingNextPage}>
        Show older
      </Button>
    </div>
  );
}
