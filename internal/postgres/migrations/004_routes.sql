-- The routing decision that a turn is bound to.
ALTER TABLE turns ADD COLUMN route json; -- RouteDecision; null for turns from before
