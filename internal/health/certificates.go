package health

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"
)

// renewalTime is how long before its end a certificate should be renewed.
const renewalTime = 14 * 24 * time.Hour

// CertificateProbe checks when the certificates of our servers end. files has the PEM files of certificate and key by the name of the setting. A
// certificate that cannot be read or has ended degrades: the rest goes on.
func CertificateProbe(files map[string][2]string) Probe {
	return Probe{Name: Certs, Every: 10 * time.Second, Late: Degraded, Ask: func(context.Context) (Finding, error) {
		f := Finding{State: OK}
		var details []string
		for _, setting := range []string{"http.tls_cert", "grpc.tls_cert"} {
			pair, ok := files[setting]
			if !ok {
				continue
			}
			c, err := tls.LoadX509KeyPair(pair[0], pair[1])
			if err != nil {
				details = append(details, fmt.Sprintf("%s: %v", setting, err))
				f.degrade(hintCerts)
				continue
			}
			text, isValid := validity(c.Leaf.NotAfter, time.Now())
			details = append(details, setting+" "+text)
			if !isValid {
				f.degrade(hintCerts)
			}
		}
		f.Detail = strings.Join(details, "; ")
		return f, nil
	}}
}

func validity(until, now time.Time) (text string, isValid bool) {
	left := until.Sub(now)
	day := until.UTC().Format(time.DateOnly)
	switch {
	case left <= 0:
		return "ended on " + day, false
	case left < renewalTime:
		return fmt.Sprintf("ends on %s, in %d days", day, int(left/(24*time.Hour))), false
	default:
		return "ends on " + day, true
	}
}
