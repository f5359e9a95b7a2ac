// An address that leads nowhere.
import { ButtonLink } from "./ui/button";
import { Empty } from "./ui/panel";

export function NotFoundPage() {
  return (
    <Empty isPage title="There is no such page">
      <ButtonLink to="/sessions">All sessions</ButtonLink>
    </Empty>
  );
}
