package routing

import "time"

// SetTimes replaces how long one expression, and all expressions of a decision, may take in the routers made from now on. Tests about
// steps need much time, for slow machines; tests about time need little.
func (c *Compiler) SetTimes(expression, decision time.Duration) {
	c.bounds.expressionTime, c.bounds.time = expression, decision
}
