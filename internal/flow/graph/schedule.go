package graph

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of schedules.
const (
	MinIntervalSec = 60
	maxIntervalSec = 366 * 24 * 3600
	maxCron        = 200      // bytes
	maxInput       = 64 << 10 // bytes
)

func (c *checker) schedules() {
	seen := map[string]int{}
	for i := range c.definition.Schedules {
		s := &c.definition.Schedules[i]
		path := fmt.Sprintf("schedules[%d]", i)
		if c.identifier(path+".id", s.ID) {
			if first, twice := seen[s.ID]; twice {
				c.fault(path+".id", "%q is the id of schedules[%d] already", s.ID, first)
			}
			seen[s.ID] = i
		}
		c.times(path, s)
		if len(s.Input) > maxInput {
			c.fault(path+".input", "is %d bytes, at most %d", len(s.Input), maxInput)
		}
	}
}

func (c *checker) times(path string, s *agent.WorkflowSchedule) {
	switch {
	case s.Cron != "" && s.IntervalSec != 0:
		c.fault(path, "want cron or interval_sec, not both")
	case s.Cron != "":
		if problem := checkCron(s.Cron); problem != "" {
			c.fault(path+".cron", "%s", problem)
		}
	case s.IntervalSec == 0:
		c.fault(path, "want cron or interval_sec")
	case s.IntervalSec < MinIntervalSec || s.IntervalSec > maxIntervalSec:
		c.fault(path+".interval_sec", "want %d to %d, got %d", MinIntervalSec, maxIntervalSec, s.IntervalSec)
	}
	if s.TimeZone == "" {
		return
	}
	if _, err := time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "Local" {
		c.fault(path+".time_zone", "there is no time zone %q: want a name such as Europe/Berlin", clip(s.TimeZone))
	}
}

// checkCron says what is wrong with the times of a schedule: five fields, or @hourly, @daily, @weekly, @monthly, @yearly.
func checkCron(text string) string {
	switch {
	case len(text) > maxCron:
		return fmt.Sprintf("is %d bytes, at most %d", len(text), maxCron)
	case strings.HasPrefix(text, "@every"):
		return "@every is interval_sec"
	case strings.Contains(text, "TZ="):
		return "a time zone belongs to time_zone"
	}
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	times, err := parser.Parse(text)
	if err != nil {
		return "want five fields, minute hour day month weekday: " + clip(err.Error())
	}
	if times.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return "such a time never comes"
	}
	return ""
}
