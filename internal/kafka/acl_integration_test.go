package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// allow gives User:worker operations on a "topic" or "group", and waits until
// the broker applies them.
func allow(t *testing.T, cluster *kafkatest.Cluster, kind, name string, operations ...string) {
	t.Helper()
	resource := kmsg.ACLResourceTypeTopic
	if kind == "group" {
		resource = kmsg.ACLResourceTypeGroup
	}
	create := kmsg.NewPtrCreateACLsRequest()
	for _, text := range operations {
		operation, err := kmsg.ParseACLOperation(text)
		if err != nil {
			t.Fatal(err)
		}
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType = resource, name, kmsg.ACLResourcePatternTypeLiteral
		c.Principal, c.Host, c.Operation, c.PermissionType = "User:worker", "*", operation, kmsg.ACLPermissionTypeAllow
		create.Creations = append(create.Creations, c)
	}
	client := cluster.Client(t)
	created, err := create.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range created.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
	err = poll(t.Context(), func() (bool, error) {
		list := kmsg.NewPtrDescribeACLsRequest()
		list.ResourceType, list.ResourceName, list.ResourcePatternType = resource, &name, kmsg.ACLResourcePatternTypeLiteral
		list.Operation, list.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		listed, err := list.RequestWith(t.Context(), client)
		if err != nil {
			return false, err
		}
		n := 0
		for _, r := range listed.Resources {
			for _, acl := range r.ACLs {
				for _, c := range create.Creations {
					if acl.Operation == c.Operation {
						n++
					}
				}
			}
		}
		return n == len(operations), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
