// Some regions of the same team.
int main(void) {
    int sum = 0;
    for (int region = 0; region < 10; region++)
#pragma omp parallel reduction(+ : sum)
        sum++;
    return sum % 10;
}
