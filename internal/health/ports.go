package health

import (
	"context"
	"time"
)

// EventLogProbe checks whether the event log is notified of events from other processes. listening reports whether its connection works; it is nil
// for a log in memory. Without the connection the log polls, so answers come later.
func EventLogProbe(listening func() bool) Probe {
	return Probe{Name: EventLog, Late: Degraded, Ask: func(context.Context) (Finding, error) {
		switch {
		case listening == nil:
			return Finding{State: OK, Detail: "in memory: this process alone can follow its turns"}, nil
		case listening():
			return Finding{State: OK, Detail: "listening"}, nil
		default:
			return Finding{Degraded, "the listening connection is lost; polling meanwhile", hintListening}, nil
		}
	}}
}

// TelemetryProbe checks whether exported telemetry arrives.
func TelemetryProbe(exporting func() (ok bool, detail string)) Probe {
	return Probe{Name: Telemetry, Late: Degraded, Ask: func(context.Context) (Finding, error) {
		ok, detail := exporting()
		if !ok {
			return Finding{Degraded, detail, hintTelemetry}, nil
		}
		return Finding{State: OK, Detail: detail}, nil
	}}
}

// Schedule is the state of a Temporal schedule.
type Schedule struct {
	Paused bool
	Note   string // why it is paused
	Every  time.Duration
	Last   time.Time // when it last ran; zero: never
}

// RetentionProbe checks the schedule that deletes old data. It is late after two missed runs.
func RetentionProbe(look func(ctx context.Context) (Schedule, error)) Probe {
	return Probe{Name: Retention, Late: Degraded, Every: 30 * time.Second, Ask: func(ctx context.Context) (Finding, error) {
		s, err := look(ctx)
		if err != nil {
			return Finding{}, err
		}
		return s.finding(time.Now()), nil
	}}
}

func (s *Schedule) finding(now time.Time) Finding {
	last := "has not run yet"
	if !s.Last.IsZero() {
		last = "last ran " + now.Sub(s.Last).Round(time.Second).String() + " ago"
	}
	switch {
	case s.Paused && s.Note != "":
		return Finding{Degraded, "paused: " + s.Note, hintSchedule}
	case s.Paused:
		return Finding{Degraded, "paused", hintSchedule}
	case s.Every > 0 && !s.Last.IsZero() && now.Sub(s.Last) > 3*s.Every:
		return Finding{Degraded, last + ", wanted every " + s.Every.String(), hintSchedule}
	default:
		return Finding{State: OK, Detail: last}
	}
}
