package agent

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of a cron text, as Temporal has them.
const (
	maxCronBytes   = 500
	maxCronComment = 200
	cronFirstYear  = 2000
	cronLastYear   = 2100
)

// cronField is one field: what it may be, and the names that some of its values have.
type cronField struct {
	name  string
	least int
	most  int
	names []string // of the values from least on; a prefix of so many letters will do
	short int
}

// cronFields are the seven fields in their order; five leave out the first and the last, six the first.
func cronFields() []cronField {
	return []cronField{
		{name: "second", most: 59},
		{name: "minute", most: 59},
		{name: "hour", most: 23},
		{name: "day of month", least: 1, most: 31},
		{name: "month", least: 1, most: 12, short: 3, names: []string{
			"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
		}},
		{name: "day of week", most: 7, short: 2, names: []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}},
		{name: "year", least: cronFirstYear, most: cronLastYear},
	}
}

// checkCron says what is wrong with a cron text: as Temporal's schedules take it, but for the time zone and @every, which have fields of
// their own. A day of month and a day of week must both match.
func checkCron(text string) error {
	switch {
	case len(text) > maxCronBytes:
		return fmt.Errorf("is %d bytes, at most %d", len(text), maxCronBytes)
	case hasControl(text):
		return errors.New("has a control character")
	case strings.HasPrefix(strings.TrimSpace(text), "@every"):
		return errors.New("@every belongs to the field every")
	case strings.Contains(text, "TZ="):
		return errors.New("a time zone belongs to the field time_zone")
	}
	times, comment, _ := strings.Cut(text, "#")
	if len(strings.TrimSpace(comment)) > maxCronComment {
		return fmt.Errorf("has a comment of more than %d bytes", maxCronComment)
	}
	times = strings.TrimSpace(times)
	switch times {
	case "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly":
		return nil
	}
	given := strings.Fields(times)
	fields := cronFields()
	switch len(given) {
	case 5:
		fields = fields[1:6]
	case 6:
		fields = fields[1:]
	case 7:
	default:
		return fmt.Errorf("has %d fields: want minute, hour, day of month, month and day of week; a year behind them; seconds before and a year behind", len(given))
	}
	var match cronMatch
	for i, f := range fields {
		values, err := f.parse(given[i])
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		match.take(f.name, values)
	}
	if !match.comes() {
		return errors.New("such a day never comes")
	}
	return nil
}

// parse reads *, 5, 1-5, 3/10, 1-9/2, mon, and several of them behind commas.
func (f *cronField) parse(text string) (map[int]bool, error) {
	values := map[int]bool{}
	for part := range strings.SplitSeq(text, ",") {
		span, every, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			var err error
			if step, err = strconv.Atoi(every); err != nil || step < 1 || step > cronLastYear {
				return nil, fmt.Errorf("the step %.20q of %.40q is no number above 0", every, part)
			}
		}
		from, to := f.least, f.most
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			var err error
			if from, err = f.value(first); err != nil {
				return nil, err
			}
			switch {
			case ranged:
				if to, err = f.value(last); err != nil {
					return nil, err
				}
				if to < from {
					return nil, fmt.Errorf("the range %.40q ends before it begins", span)
				}
			case !stepped:
				to = from
			}
		}
		for v := from; v <= to; v += step {
			values[v] = true
		}
	}
	return values, nil
}

func (f *cronField) value(text string) (int, error) {
	if f.short > 0 && len(text) >= f.short {
		for i, name := range f.names {
			if strings.HasPrefix(name, strings.ToLower(text)) {
				return f.least + i, nil
			}
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.least || n > f.most || text[0] == '+' {
		return 0, fmt.Errorf("%.40q is not within %d to %d", text, f.least, f.most)
	}
	return n, nil
}

// cronMatch are the days that a cron text names; nil is every one.
type cronMatch struct{ days, months, weekdays, years map[int]bool }

func (m *cronMatch) take(field string, values map[int]bool) {
	switch field {
	case "day of month":
		m.days = values
	case "month":
		m.months = values
	case "day of week":
		values[0] = values[0] || values[7]
		m.weekdays = values
	case "year":
		m.years = values
	}
}

// comes reports whether there is such a day at all.
func (m *cronMatch) comes() bool {
	day := time.Date(cronFirstYear, time.January, 1, 0, 0, 0, 0, time.UTC)
	for ; day.Year() <= cronLastYear; day = day.AddDate(0, 0, 1) {
		if m.days[day.Day()] && m.months[int(day.Month())] && m.weekdays[int(day.Weekday())] && (m.years == nil || m.years[day.Year()]) {
			return true
		}
	}
	return false
}
