-- The routing decision that a turn is bound to (seed 000 §5.4).
ALTER TABLE turns ADD COLUMN route json; -- RouteDecision; null for turns from before
