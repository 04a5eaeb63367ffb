package embedded_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/service/worker/scheduler"

	"github.com/turnstone-run/turnstone/agent"
)

// TestCronAgreesWithTheServer compares agent.CheckCron with the parser of the Temporal server: CheckCron accepts a text if the server accepts it and
// the schedule will fire.
func TestCronAgreesWithTheServer(t *testing.T) {
	builder := scheduler.NewSpecBuilder(dynamicconfig.GetIntPropertyFn(0), dynamicconfig.GetIntPropertyFn(0))
	accepted, refused, never := 0, 0, 0
	for text := range cronTexts {
		spec, err := builder.NewCompiledSpec(&schedulepb.ScheduleSpec{CronString: []string{text}})
		fires := false
		if err == nil {
			next, nextErr := spec.GetNextTime("", time.Now())
			require.NoError(t, nextErr, "%q", text)
			fires = !next.Next.IsZero()
		}
		switch got := agent.CheckCron(text); {
		case fires:
			accepted++
			require.NoError(t, got, "the server runs %q", text)
		case err == nil:
			never++
			require.EqualError(t, got, "such a day never comes", "%q", text)
		default:
			refused++
			require.Error(t, got, "the server refuses %q: %v", text, err)
		}
	}
	t.Logf("%d accepted, %d refused by the server, %d never fire", accepted, refused, never)
	require.Greater(t, accepted, 1000)
	require.Greater(t, refused, 1000)
	require.Greater(t, never, 50)
}

// cronTexts yields texts that are valid for some versions of cron, and then 10,000 random texts, which are the same in each run.
func cronTexts(yield func(string) bool) {
	for _, text := range []string{
		"", "#", "* * * *", "* * * * * * * *", "@hourly", "@daily # noon", "@often", "@reboot", "@DAILY", "0 9 ? * mon", "0 9 L * *", "0 9 15W * *",
		"0 9 * * 5#2", "0 9 1, 15 * *", "0 9 * * fri-sun", "0 9 * * sun-fri", "0 9 * * 5-7/2", "0 9 * * 7/2", "0 9 * * */7", "H 9 * * *",
		"0 9 31 2 *", "0 9 30 feb *", "0 9 31 4,6,9,11 *", "0 9 29 2 *", "0 9 29 2 mon", "0 9 29 2 * 2025", "0 9 * * * 2020", "0 9 * * * 2020-2090/7",
		"0 9 * * # Monday", "0 9 * * 1 # " + strings.Repeat("x", 200), "0 9 * * 1 # " + strings.Repeat("x", 201), "00 09 01 01 *", "0\u00a09 * * *",
		fmt.Sprintf("*/%d * * * *", math.MaxInt32), "0 9 * juneteenth *", "0 9 * june tuesday",
	} {
		if !yield(text) {
			return
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	fields := [][]string{ // second to year
		{"0", "30", "59", "0-10"},
		{"0", "5", "07", "59", "10-20", "+3"},
		{"0", "9", "23", "8-18", "22-23"},
		{"1", "15", "29", "30", "31", "30-31", "10-12"},
		{"1", "2", "feb", "February", "apr", "sept", "12", "jan-mar", "2-2"},
		{"0", "1", "7", "mon", "SUN", "tues", "1-5", "5-7", "sat-7", "fri-sun", "mon-fri"},
		{"2020", "2026", "2027", "2100", "2020-2090", "2025,2026"},
	}
	value := func(field int) string {
		switch random.IntN(20) {
		case 0:
			return pick("?", "L", "", "x", "60", "99", "-1", "5-1", "1-2-3", "*/0", "1/", "1//2", "2101", "ja", "0", "32", "8")
		case 1, 2, 3, 4, 5, 6:
			return "*"
		default:
			return pick(fields[field]...)
		}
	}
	for range 10_000 {
		first, last := 1, 6
		switch random.IntN(8) {
		case 0:
			first, last = 0, 7
		case 1:
			last = 7
		case 2:
			last = 5 + random.IntN(2)
		}
		var text []string
		for field := first; field < last; field++ {
			part := value(field)
			switch random.IntN(8) {
			case 0:
				part += "," + value(field)
			case 1:
				part += "/" + pick("1", "2", "3", "7", "15", "100")
			}
			text = append(text, part)
		}
		if !yield(strings.Join(text, " ")) {
			return
		}
	}
}
