package redact_test

import (
	"fmt"

	"github.com/turnstone-run/turnstone/internal/redact"
)

func ExampleRedactor() {
	r := redact.New(redact.Rules{Secrets: []string{"s3cret-key"}})
	fmt.Println(r.Text("dial postgres://app:swordfish@db/app with s3cret-key"))
	// Output: dial postgres://app:[redacted]@db/app with [redacted]
}
