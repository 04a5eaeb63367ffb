package agent

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bounds of a cron text, which are those of Temporal.
const (
	maxCronBytes   = 500
	maxCronComment = 200
	cronFirstYear  = 2000
	cronLastYear   = 2100
)

// cronField is one field of a cron text: its range, and the names of its values.
type cronField struct {
	name     string
	minValue int
	maxValue int
	names    []string // of the values, beginning with minValue
	short    int      // minimum length of an abbreviated name
}

// cronFields returns the seven fields in order. A text of five fields has neither seconds nor a year, a text of six fields has no seconds.
func cronFields() []cronField {
	return []cronField{
		{name: "second", maxValue: 59},
		{name: "minute", maxValue: 59},
		{name: "hour", maxValue: 23},
		{name: "day of month", minValue: 1, maxValue: 31},
		{name: "month", minValue: 1, maxValue: 12, short: 3, names: []string{
			"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
		}},
		{name: "day of week", maxValue: 7, short: 2, names: []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}},
		{name: "year", minValue: cronFirstYear, maxValue: cronLastYear},
	}
}

// CheckCron returns why a cron text is not valid in a schedule, nil if it is. The rules are those of Temporal's schedules: day of month and day of week
// must both match, and 7 is Sunday. Time zones, @every, control characters and texts without any matching day are not allowed.
func CheckCron(text string) error { return checkCron(text, time.Now()) }

func checkCron(text string, now time.Time) error {
	trimmed := strings.TrimSpace(text)
	switch {
	case len(text) > maxCronBytes:
		return fmt.Errorf("is %d bytes, at most %d", len(text), maxCronBytes)
	case hasControl(text):
		return errors.New("has a control character")
	case strings.HasPrefix(trimmed, "@every"):
		return errors.New("@every is not a cron text here: give every in a schedule of an agent, interval_sec in a workflow")
	case strings.HasPrefix(trimmed, "TZ="), strings.HasPrefix(trimmed, "CRON_TZ="):
		return errors.New("a time zone belongs to the field time_zone")
	}
	times, comment, _ := strings.Cut(trimmed, "#")
	if len(strings.TrimSpace(comment)) > maxCronComment {
		return fmt.Errorf("has a comment of more than %d bytes", maxCronComment)
	}
	times = strings.TrimSpace(times)
	switch times {
	case "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly":
		return nil
	}
	values := strings.Fields(times)
	fields := cronFields()
	switch len(values) {
	case 5:
		fields = fields[1:6]
	case 6:
		fields = fields[1:]
	case 7:
	default:
		return fmt.Errorf("has %d fields: want minute, hour, day of month, month and day of week; a year behind them; seconds before and a year behind",
			len(values))
	}
	var days cronDays
	for i, f := range fields {
		matching, err := f.parse(values[i])
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		days.restrict(f.name, matching)
	}
	if !days.anyFrom(now) {
		return errors.New("such a day never comes")
	}
	return nil
}

// parse returns the values of *, 5, 1-5, 3/10, 1-9/2, mon, or a comma-separated list of these.
func (f *cronField) parse(text string) (map[int]bool, error) {
	values := map[int]bool{}
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, hasStep := strings.Cut(part, "/")
		step := 1
		if hasStep {
			var err error
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > math.MaxInt32 { // Temporal stores 32 bits
				return nil, fmt.Errorf("the step %.20q of %.40q is not a number from 1 to %d", stepText, part, math.MaxInt32)
			}
		}
		first, last, err := f.parseSpan(span, hasStep)
		if err != nil {
			return nil, err
		}
		for v := first; v <= last; v += step {
			values[v] = true
		}
	}
	return values, nil
}

// parseSpan returns the first and last value of *, 5 or 1-5. With a step, a single value is the beginning of the range to the last value.
func (f *cronField) parseSpan(span string, hasStep bool) (first, last int, err error) {
	if span == "*" {
		return f.minValue, f.maxValue, nil
	}
	firstText, lastText, isRange := strings.Cut(span, "-")
	if first, err = f.value(firstText); err != nil {
		return 0, 0, err
	}
	switch {
	case !isRange && hasStep:
		return first, f.maxValue, nil
	case !isRange:
		return first, first, nil
	}
	if last, err = f.value(lastText); err != nil {
		return 0, 0, err
	}
	if last < first {
		return 0, 0, fmt.Errorf("the range %.40q ends before it begins", span)
	}
	return first, last, nil
}

// value returns the value of a number or a name, which may be abbreviated.
func (f *cronField) value(text string) (int, error) {
	if f.short > 0 && len(text) >= f.short {
		for i, name := range f.names {
			if strings.HasPrefix(name, strings.ToLower(text)) {
				return f.minValue + i, nil
			}
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.minValue || n > f.maxValue {
		return 0, fmt.Errorf("%.40q is not within %d to %d", text, f.minValue, f.maxValue)
	}
	return n, nil
}

// cronDays are the days that match a cron text: those in all four sets. nil years means every year.
type cronDays struct{ days, months, weekdays, years map[int]bool }

// restrict sets the values of a field.
func (d *cronDays) restrict(field string, values map[int]bool) {
	switch field {
	case "day of month":
		d.days = values
	case "month":
		d.months = values
	case "day of week":
		values[0] = values[0] || values[7]
		d.weekdays = values
	case "year":
		d.years = values
	}
}

// anyFrom reports whether there is a matching day from now on. It begins a day earlier, because some time zones are behind UTC.
func (d *cronDays) anyFrom(now time.Time) bool {
	day := now.UTC().AddDate(0, 0, -1)
	for ; day.Year() <= cronLastYear; day = day.AddDate(0, 0, 1) {
		if d.days[day.Day()] && d.months[int(day.Month())] && d.weekdays[int(day.Weekday())] && (d.years == nil || d.years[day.Year()]) {
			return true
		}
	}
	return false
}
