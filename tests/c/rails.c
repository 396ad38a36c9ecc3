// The rails as the program sees them: their names, where their interfaces are, which is nearest.
// The values depend on the machine, but must be consistent.
// run: 1 2 3
// combray.h
// hosts
#include "check.h"
#include <combray.h>

static void named(int rails) {
    for (int rail = 0; rail < rails; rail++) {
        char name[100] = "", begin[4];
        OK(combray_rail_name(rail, name, sizeof name));
        CHECK(name[0] != 0, "rail %d has a name", rail);
        OK(combray_rail_name(rail, begin, sizeof begin));
        CHECK(strlen(begin) <= 3 && !strncmp(name, begin, strlen(begin)), "%s of %s", begin, name);
        // A communicator takes the name.
        MPI_Comm comm;
        MPI_Info info;
        char value[100] = "";
        int flag, room = sizeof value;
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "combray_rail", name));
        OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
        OK(MPI_Info_free(&info));
        OK(MPI_Comm_get_info(comm, &info));
        OK(MPI_Info_get_string(info, "combray_rail", &room, value, &flag));
        CHECK(flag && !strcmp(value, name), "%s for %s", value, name);
        OK(MPI_Info_free(&info));
        OK(MPI_Comm_free(&comm));
    }
}

static void placed(int rails) {
    int nearest = -2, least = -1, distance, node;
    OK(combray_nearest_rail(&nearest));
    CHECK(nearest >= -1 && nearest < rails, "%d of %d", nearest, rails);
    for (int rail = 0; rail < rails; rail++) {
        OK(combray_rail_place(rail, &node, &distance));
        CHECK(distance == -1 || distance >= 10, "%d", distance);
        CHECK(node >= -1 && (distance >= 0 || node == -1), "node %d, distance %d", node, distance);
        if (distance >= 0 && (least < 0 || distance < least)) least = distance;
        OK(combray_rail_place(rail, NULL, NULL));
    }
    CHECK_EQ(nearest >= 0, least >= 0);
    if (nearest >= 0) {
        OK(combray_rail_place(nearest, NULL, &distance));
        CHECK_EQ(distance, least);
    }
}

static void wrong(int rails) {
    char name[10];
    int value;
    EXPECT_ERROR(combray_rails(NULL), MPI_ERR_ARG, "combray_rails", "count");
    EXPECT_ERROR(combray_nearest_rail(NULL), MPI_ERR_ARG, "combray_nearest_rail", "rail");
    EXPECT_ERROR(combray_rail_name(-1, name, sizeof name), MPI_ERR_ARG, "combray_rail_name", "-1");
    EXPECT_ERROR(combray_rail_name(0, NULL, 10), MPI_ERR_ARG, "combray_rail_name", "buffer");
    EXPECT_ERROR(combray_rail_place(rails, &value, &value), MPI_ERR_ARG, "combray_rail_place",
                 "numbered from 0");
}

int main(void) {
    int rails = 0;
    check_begin();
    OK(combray_rails(&rails));
    CHECK(rails >= 2, "itself and the memory of the machine: %d", rails);
    named(rails);
    placed(rails);
    wrong(rails);
    return check_end();
}
