package library

import (
	"fmt"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of schedules.
const (
	minIntervalSec = 60
	maxIntervalSec = 366 * 24 * 3600
	maxInput       = 64 << 10 // bytes
)

func (c *checker) checkSchedules() {
	first := map[string]int{} // the index of each ID
	for i := range c.definition.Schedules {
		s := &c.definition.Schedules[i]
		path := fmt.Sprintf("schedules[%d]", i)
		if c.checkID(path+".id", s.ID) {
			if j, isDuplicate := first[s.ID]; isDuplicate {
				c.addFault(path+".id", "%q is the id of schedules[%d] already", s.ID, j)
			}
			first[s.ID] = i
		}
		c.checkTimes(path, s)
		if len(s.Input) > maxInput {
			c.addFault(path+".input", "is %d bytes, at most %d", len(s.Input), maxInput)
		}
	}
}

func (c *checker) checkTimes(path string, s *agent.WorkflowSchedule) {
	switch {
	case s.Cron != "" && s.IntervalSec != 0:
		c.addFault(path, "want cron or interval_sec, not both")
	case s.Cron != "":
		c.checkCron(path+".cron", s.Cron)
	case s.IntervalSec == 0:
		c.addFault(path, "want cron or interval_sec")
	case s.IntervalSec < minIntervalSec || s.IntervalSec > maxIntervalSec:
		c.addFault(path+".interval_sec", "want %d to %d, got %d", minIntervalSec, maxIntervalSec, s.IntervalSec)
	}
	if s.TimeZone == "" {
		return
	}
	if _, err := time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "Local" {
		c.addFault(path+".time_zone", "there is no time zone %q: want a name such as Europe/Berlin", clip.Bytes(s.TimeZone, maxQuoted))
	}
}

// checkCron adds a fault for a cron text that is invalid or has seconds, because runs must be at least [minIntervalSec] apart.
func (c *checker) checkCron(path, text string) {
	if err := agent.CheckCron(text); err != nil {
		c.addFault(path, "%s", err)
		return
	}
	times, _, _ := strings.Cut(text, "#")
	if len(strings.Fields(times)) == 7 {
		c.addFault(path, "has seconds, but a workflow runs at most once a minute: leave out the first field")
	}
}
