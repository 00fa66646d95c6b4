package exec_test

import (
	"context"
	"fmt"

	"tollgate/dispatcher"
	"tollgate/tools/exec"
)

func ExampleNew() {
	e, err := exec.New(exec.Spec{Command: []string{"printf", "hello %s"}, Args: []string{"{/name}"}})
	if err != nil {
		panic(err)
	}
	v := e.Execute(context.Background(), dispatcher.Invocation{Arguments: []byte(`{"name":"Ada; rm -rf /"}`)})
	fmt.Println(v.Content[0].Text)
	// Output: hello Ada; rm -rf /
}
