package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	failedStep   = regexp.MustCompile(`^pipeline\[(\d{1,3})\]`)
	missingField = regexp.MustCompile(`\bfield "((?:[^"\\]|\\.){1,200})"; the first row has (.+?)\.?$`)
	joinSide     = regexp.MustCompile(`\bof the (left|right) side\b`)
)

// correction is a call again, with a field that exists in the place of one that does not.
type correction struct {
	args     json.RawMessage
	was, now string
}

// correct mends a call when its error names a field that does not exist and those that do, and one of these is surely meant.
func correct(arguments string, f failed) (correction, bool) {
	at := failedStep.FindStringSubmatch(f.Field)
	found := missingField.FindStringSubmatch(f.Message)
	var args pipelineArgs
	if at == nil || found == nil || json.Unmarshal([]byte(arguments), &args) != nil {
		return correction{}, false
	}
	was, err := strconv.Unquote(`"` + found[1] + `"`)
	if err != nil {
		return correction{}, false
	}
	now := nearest(was, strings.Split(found[2], ", "))
	first, _ := strconv.Atoi(at[1]) // digits are a number
	if now == "" || first >= len(args.Pipeline) {
		return correction{}, false
	}
	side := ""
	if s := joinSide.FindStringSubmatch(f.Message); s != nil {
		side = s[1]
	}
	for i := first; i < len(args.Pipeline); i++ {
		var s step
		if json.Unmarshal(args.Pipeline[i], &s) != nil {
			return correction{}, false
		}
		s.rename(was, now, side)
		raw, err := encode(s)
		if err != nil {
			return correction{}, false
		}
		args.Pipeline[i] = raw
		if side != "" {
			break // only the join itself
		}
	}
	raw, err := encode(args)
	return correction{raw, was, now}, err == nil && string(raw) != arguments
}

// rename puts another field where a step names one; side is that of a join which lacks it, empty for others.
func (s *step) rename(was, now, side string) {
	swap := func(text *string) {
		head, tail, as := strings.Cut(*text, " as ")
		switch {
		case head == was:
			head = now
		case strings.HasSuffix(head, "("+was+")"):
			head = strings.TrimSuffix(head, was+")") + now + ")"
		}
		if *text = head; as {
			*text += " as " + tail
		}
	}
	swap(&s.Field)
	for i := range s.Fields {
		swap(&s.Fields[i])
	}
	if s.By != nil {
		for i := range *s.By {
			swap(&(*s.By)[i])
		}
	}
	if s.Condition != nil {
		s.Condition.each(func(c *clause) { swap(&c.Field) })
	}
	if s.On != "" {
		left, right, two := strings.Cut(s.On, "=")
		if !two {
			right = left
		}
		if side != "right" {
			swap(&left)
		}
		if side != "left" {
			swap(&right)
		}
		if s.On = left; left != right {
			s.On = left + "=" + right
		}
	}
}

// nearest is the name that is meant by one that does not exist, empty for none: the same but for case and signs, another word for it, or
// one that differs in a letter or two.
func nearest(word string, names []string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "" || n == word })
	if found := nearColumn(word, names); found != "" {
		return found
	}
	best, least := "", 1+max(1, len(word)/4)
	for _, n := range names {
		if len(n) > 200 || len(word) > 200 {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(n)); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance counts the letters to add, drop or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
